"""A million products of 4 x 4 matrices, which the kernels for large ones compute slowly."""

# expect: verdict=compute finding=slow-kernel

import common
import torch

args = common.arguments()
count = common.sized(args, 1 << 20, 64)
turns = torch.nn.Parameter(torch.randn(count, 4, 4, device=args.device))
optimizer = torch.optim.SGD([turns], lr=1e-3, fused=True)
points = torch.randn(count, 4, 4, device=args.device)
for _ in common.steps(args):
    moved = torch.bmm(turns, points)  # <- finding
    # cured: moved = (turns.unsqueeze(-1) * points.unsqueeze(1)).sum(2)
    loss = moved.square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
