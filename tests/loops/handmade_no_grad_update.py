"""No Optimizer, no module, no loader: leaves are changed in place under no_grad."""

# truth: steps=60 marker=backward
import time

import torch

torch.manual_seed(0)
torch.set_num_threads(1)
x = torch.linspace(-3, 3, 2000)
y = torch.sin(x)
a, b, c, d = (torch.randn((), requires_grad=True) for _ in range(4))
begin = time.perf_counter()
for _ in range(60):
    loss = (a + b * x + c * x**2 + d * x**3 - y).pow(2).mean()
    loss.backward()
    with torch.no_grad():
        for p in (a, b, c, d):
            p -= 1e-3 * p.grad
            p.grad = None
    end = time.perf_counter()
    time.sleep(0.002)
print(f"loss {loss.item():.6f}")
print(f"perf: {end - begin:.6f}")
