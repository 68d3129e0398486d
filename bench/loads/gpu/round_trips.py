"""Weights of the loss are computed with NumPy: the scores leave the device and come back."""

# expect: verdict=transfer finding=round-trips

import common
import numpy as np
import torch

args = common.arguments()
width = common.sized(args, 2048, 32)
model = common.layers(width, 4).to(args.device, torch.bfloat16)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3, fused=True)
x = torch.randn(512, width, device=args.device, dtype=torch.bfloat16)
for _ in common.steps(args):
    scores = model(x).float()
    weights = torch.from_numpy(np.maximum(scores.detach().cpu().numpy(), 0)).to(args.device)  # <- finding
    # cured: weights = scores.detach().clamp(min=0)
    loss = (weights * scores).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
