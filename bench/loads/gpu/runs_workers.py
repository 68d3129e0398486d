"""A loader with two workers and pinned memory, copied without blocking."""

import common
import torch
from torch.utils.data import DataLoader

if __name__ == "__main__":
    args = common.arguments()
    width = common.sized(args, 2048, 32)
    data = common.Ready(256, width)
    loader = DataLoader(data, batch_size=None, num_workers=2, pin_memory=args.device == "cuda")
    model = common.layers(width, 8).to(args.device)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    losses = []
    for _, x in zip(common.steps(args, losses), common.endless(loader), strict=False):
        loss = model(x.to(args.device, non_blocking=True)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.detach())
