"""Noise is drawn on the host and copied to the device in every step."""

# expect: verdict=data finding=tensors-created-on-host

import common
import torch

args = common.arguments()
width = common.sized(args, 4096, 32)
model = common.layers(width, 2).to(args.device, torch.bfloat16)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, fused=True)
for _ in common.steps(args):
    noise = torch.randn(256, width).to(args.device)  # <- finding
    # cured: noise = torch.randn(256, width, device=args.device)
    loss = model(noise.bfloat16()).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
