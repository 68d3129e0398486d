"""Large products in 16 bits, fed by workers through pinned memory while the device computes."""

# expect: verdict=healthy finding=none

import common
import torch
from torch.utils.data import DataLoader

if __name__ == "__main__":
    args = common.arguments()
    width = common.sized(args, 4096, 64)
    data = common.Ready(common.sized(args, 8192, 32), 64)
    loader = DataLoader(data, batch_size=None, num_workers=2, pin_memory=args.device == "cuda")
    model = torch.nn.Sequential(torch.nn.Linear(64, width), common.layers(width, 4))
    model = model.to(args.device, torch.bfloat16)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, fused=True)
    for _, batch in zip(common.steps(args), common.endless(loader), strict=False):
        loss = model(batch.to(args.device, non_blocking=True).bfloat16()).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
