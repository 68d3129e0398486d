"""Ends by os._exit, past every handler, with a status of its own."""

# truth: steps=12 marker=update exit=5
import os

import torch
from torch import nn

torch.manual_seed(0)
torch.set_num_threads(1)
model = nn.Linear(16, 2)
optimizer = torch.optim.Adam(model.parameters())
x, y = torch.randn(32, 16), torch.randint(2, (32,))
for index in range(100):
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    if index == 11:
        print(f"loss {loss.item():.6f}", flush=True)
        os._exit(5)
