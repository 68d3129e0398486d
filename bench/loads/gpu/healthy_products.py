"""Large products in 16 bits, whose activations cost little beside them."""

# expect: verdict=healthy finding=none

import common
import torch

args = common.arguments()
width = common.sized(args, 8192, 64)
model = common.layers(width, 4).to(args.device)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, fused=True)
x = torch.randn(common.sized(args, 8192, 32), width, device=args.device)
for _ in common.steps(args):
    with torch.autocast(args.device, torch.bfloat16):
        y = model(x)
    loss = y.mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
