"""Adam goes over its parameters one by one."""

# expect: verdict=host finding=unfused-optimizer

import common
import torch

args = common.arguments()
width = common.sized(args, 512, 32)
model = common.layers(width, common.sized(args, 24, 4)).to(args.device, torch.bfloat16)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, foreach=False)  # <- finding
# cured: optimizer = torch.optim.Adam(model.parameters(), lr=1e-4, fused=True)
x = torch.randn(256, width, device=args.device, dtype=torch.bfloat16)
for _ in common.steps(args):
    loss = model(x).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
