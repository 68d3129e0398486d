"""The worst of each group are chosen by a mask, whose number of true values the host has to know."""

# expect: verdict=host finding=device-sync-in-loop

import common
import torch

args = common.arguments()
width = common.sized(args, 2048, 32)
model = common.layers(width, common.sized(args, 24, 2)).to(args.device, torch.bfloat16)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, fused=True)
x = torch.randn(common.sized(args, 8192, 16), width, device=args.device, dtype=torch.bfloat16)
for _ in common.steps(args):
    losses = []
    for wrong in model(x).square().mean(1).chunk(16):
        worst = wrong > wrong.detach().mean()
        losses.append(wrong[worst].mean())  # <- finding
        # cured: losses.append((wrong * worst).sum() / worst.sum())
    loss = torch.stack(losses).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
