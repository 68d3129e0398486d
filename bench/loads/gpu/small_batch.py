"""Eight samples a step through wide layers: each kernel takes as long as reading its weights."""

# expect: verdict=compute finding=small-batch

import common
import torch
from torch.utils.data import DataLoader, TensorDataset

args = common.arguments()
width = common.sized(args, 8192, 32)
samples = 8
# cured: samples = 64
items = TensorDataset(torch.randn(1024, width))
loader = DataLoader(items, samples, drop_last=True)  # <- finding
model = common.layers(width, common.sized(args, 6, 2)).to(args.device)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-4, fused=True)
for _, (batch,) in zip(common.steps(args, samples=samples), common.endless(loader), strict=False):
    loss = model(batch.to(args.device)).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
