"""A deep and narrow network: its kernels are shorter than launching them."""

# expect: verdict=host finding=interpreter-bound

import common
import torch

args = common.arguments()
model = common.layers(64, common.sized(args, 48, 4)).to(args.device, torch.bfloat16)
trained = model
# cured: trained = torch.compile(model, mode="reduce-overhead" if args.device == "cuda" else None)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, fused=True)
x = torch.randn(64, 64, device=args.device, dtype=torch.bfloat16)
for _ in common.steps(args):
    loss = trained(x).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
