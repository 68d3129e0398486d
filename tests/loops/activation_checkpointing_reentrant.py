"""Recomputation inside backward, reentrant: the backwards of the parts belong to the one that the script calls."""

# truth: steps=20 marker=update backwards_per_step=1
import time

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

torch.manual_seed(0)
torch.set_num_threads(1)
blocks = nn.ModuleList(nn.Sequential(nn.Linear(256, 256), nn.ReLU()) for _ in range(4))
head = nn.Linear(256, 2)
optimizer = torch.optim.Adam([*blocks.parameters(), *head.parameters()])
x, y = torch.randn(256, 256, requires_grad=True), torch.randint(2, (256,))
backward_s = 0.0
begin = time.perf_counter()
for _ in range(20):
    hidden = x
    for block in blocks:
        hidden = checkpoint(block, hidden, use_reentrant=True)
    loss = nn.functional.cross_entropy(head(hidden), y)
    optimizer.zero_grad()
    now = time.perf_counter()
    loss.backward()
    backward_s += time.perf_counter() - now
    optimizer.step()
    end = time.perf_counter()
print(f"loss {loss.item():.6f}")
print(f"perf: {end - begin:.6f}")
