"""Rows are chosen by a mask, whose number of true values the host has to know."""

# expect: verdict=host finding=device-sync-in-loop

import common
import torch

args = common.arguments()
width = common.sized(args, 4096, 32)
model = common.layers(width, 8).to(args.device, torch.bfloat16)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, fused=True)
x = torch.randn(common.sized(args, 1024, 16), width, device=args.device, dtype=torch.bfloat16)
for _ in common.steps(args):
    wrong = model(x).square().mean(1)
    worst = wrong > wrong.detach().mean()
    loss = wrong[worst].mean()  # <- finding
    # cured: loss = (wrong * worst).sum() / worst.sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
