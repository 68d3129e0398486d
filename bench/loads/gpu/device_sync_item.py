"""The size of each gradient is read as a number in every step."""

# expect: verdict=host finding=device-sync-in-loop

import common
import torch

args = common.arguments()
width = common.sized(args, 2048, 32)
model = common.layers(width, common.sized(args, 24, 2)).to(args.device, torch.bfloat16)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, fused=True)
x = torch.randn(common.sized(args, 4096, 16), width, device=args.device, dtype=torch.bfloat16)
for _ in common.steps(args):
    loss = model(x).square().mean()
    optimizer.zero_grad()
    loss.backward()
    norms = [parameter.grad.norm().item() for parameter in model.parameters()]  # <- finding
    # cured: norms = [parameter.grad.norm() for parameter in model.parameters()]
    optimizer.step()
