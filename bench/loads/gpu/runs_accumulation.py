"""Gradient accumulation: four backward passes to an update."""

import common
import torch

PASSES = 4

args = common.arguments()
width = common.sized(args, 2048, 32)
model = common.layers(width, 6).to(args.device)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
x = torch.randn(PASSES, 256, width, device=args.device)
losses = []
for _ in common.steps(args, losses):
    optimizer.zero_grad()
    for part in x:
        loss = model(part).square().mean() / PASSES
        loss.backward()
    optimizer.step()
    losses.append(loss.detach())
