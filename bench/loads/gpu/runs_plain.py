"""A plain loop over large matrix products: the device is always behind the host."""

import common
import torch

args = common.arguments()
width = common.sized(args, 4096, 64)
model = common.layers(width, 8).to(args.device)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
x = torch.randn(512, width, device=args.device)
losses = []
for _ in common.steps(args, losses):
    loss = model(x).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.detach())
