"""The loss and the size of the gradient are read as numbers in every step."""

# expect: verdict=host finding=device-sync-in-loop

import common
import torch

args = common.arguments()
width = common.sized(args, 4096, 32)
model = common.layers(width, 8).to(args.device, torch.bfloat16)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, fused=True)
x = torch.randn(common.sized(args, 1024, 16), width, device=args.device, dtype=torch.bfloat16)
seen, norms = [], []
for _ in common.steps(args):
    loss = model(x).square().mean()
    seen.append(loss.item())  # <- finding
    # cured: seen.append(loss.detach())
    optimizer.zero_grad()
    loss.backward()
    norms.append(model[0].weight.grad.norm().item())  # <- finding
    # cured: norms.append(model[0].weight.grad.norm())
    optimizer.step()
