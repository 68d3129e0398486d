"""Large products in TF32, which would be faster in 16 bits."""

# expect: verdict=compute finding=no-mixed-precision

import contextlib

import common
import torch

args = common.arguments()
torch.set_float32_matmul_precision("high")
width = common.sized(args, 4096, 32)
model = common.layers(width, 6).to(args.device)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, fused=True)
x = torch.randn(2048, width, device=args.device)
precision = contextlib.nullcontext()
# cured: precision = torch.autocast(args.device, torch.bfloat16)
for _ in common.steps(args):
    with precision:
        y = model(x)
    loss = y.float().square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
