"""Batches lie in pinned memory, and each copy of a part waits until the device has it."""

# expect: verdict=transfer finding=blocking-copies

import common
import torch
from torch.utils.data import DataLoader

if __name__ == "__main__":
    args = common.arguments()
    width = common.sized(args, 4096, 64)
    data = common.Ready(common.sized(args, 512, 16), width)
    pin = args.device == "cuda"
    loader = DataLoader(data, batch_size=None, num_workers=common.sized(args, 4, 1), pin_memory=pin)
    model = common.layers(width, 8).to(args.device, torch.bfloat16)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, fused=True)
    for _, batch in zip(common.steps(args), common.endless(loader), strict=False):
        parts = [part.to(args.device) for part in batch.chunk(8)]  # <- finding
        # cured: parts = [part.to(args.device, non_blocking=True) for part in batch.chunk(8)]
        loss = model(torch.cat(parts).bfloat16()).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
