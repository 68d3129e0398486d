"""A model under torch.compile."""

import common
import torch

args = common.arguments()
width = common.sized(args, 1024, 32)
model = common.layers(width, 8).to(args.device)
trained = torch.compile(model)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
x = torch.randn(256, width, device=args.device)
losses = []
for _ in common.steps(args, losses):
    loss = trained(x).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.append(loss.detach())
