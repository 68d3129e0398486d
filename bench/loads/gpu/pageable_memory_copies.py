"""Large batches are copied from pageable memory."""

# expect: verdict=transfer finding=pageable-memory-copies

import common
import torch
from torch.utils.data import DataLoader

if __name__ == "__main__":
    args = common.arguments()
    width = common.sized(args, 4096, 64)
    data = common.Ready(common.sized(args, 1024, 8), width)
    loader = DataLoader(data, batch_size=None, num_workers=common.sized(args, 6, 1))
    # cured: loader = DataLoader(data, None, num_workers=common.sized(args, 6, 1), pin_memory=True)
    model = common.layers(width, common.sized(args, 12, 2)).to(args.device, torch.bfloat16)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, fused=True)
    for _, batch in zip(common.steps(args), common.endless(loader), strict=False):
        x = batch.to(args.device)  # <- finding
        # cured: x = batch.to(args.device, non_blocking=True)
        loss = model(x.bfloat16()).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
