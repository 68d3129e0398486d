"""Large products in float32, as torch computes them by default: 16 bits would be advised here as well."""

# expect: verdict=compute finding=tf32-off

import common
import torch

args = common.arguments()
torch.set_float32_matmul_precision("highest")
# cured: torch.set_float32_matmul_precision("high")
width = common.sized(args, 4096, 32)
model = common.layers(width, 6).to(args.device)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, fused=True)
x = torch.randn(1024, width, device=args.device)
for _ in common.steps(args):
    loss = model(x).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
