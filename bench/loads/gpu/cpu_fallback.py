"""Scores are sorted on the host in the middle of a step."""

# expect: verdict=host finding=cpu-fallback

import common
import torch

args = common.arguments()
width = common.sized(args, 2048, 32)
model = common.layers(width, 4).to(args.device, torch.bfloat16)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, fused=True)
x = torch.randn(256, width, device=args.device, dtype=torch.bfloat16)
for _ in common.steps(args):
    scores = model(x).float()
    ranked = torch.sort(scores.detach().cpu(), dim=1).values.to(args.device)  # <- finding
    # cured: ranked = torch.sort(scores.detach(), dim=1).values
    loss = (scores - ranked).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
