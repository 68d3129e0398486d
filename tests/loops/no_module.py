"""No nn.Module and no loader: bare tensors and an optimizer."""

# truth: steps=100 marker=update
import time

import torch

torch.manual_seed(0)
torch.set_num_threads(1)
x = torch.randn(512, 64)
y = x @ torch.randn(64, 1)
weight = torch.zeros(64, 1, requires_grad=True)
bias = torch.zeros(1, requires_grad=True)
optimizer = torch.optim.SGD([weight, bias], lr=0.05)
# Nothing marks a step before its backward here: first calls, which are slow, are made before the clock runs.
((x @ weight + bias - y) ** 2).mean()
optimizer.zero_grad()
begin = time.perf_counter()
for _ in range(100):
    loss = ((x @ weight + bias - y) ** 2).mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    end = time.perf_counter()
    time.sleep(0.001)
print(f"loss {loss.item():.6f}")
print(f"perf: {end - begin:.6f}")
