"""An array of NumPy makes the model compute in double precision."""

# expect: verdict=compute finding=accidental-float64

import common
import numpy as np
import torch

args = common.arguments()
torch.set_float32_matmul_precision("high")
width = common.sized(args, 4096, 32)
x = torch.from_numpy(np.random.default_rng(0).standard_normal((1024, width))).to(args.device)
# cured: x = torch.randn(1024, width, device=args.device)
model = common.layers(width, 6).to(args.device, x.dtype)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, fused=True)
for _ in common.steps(args):
    loss = model(x).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
