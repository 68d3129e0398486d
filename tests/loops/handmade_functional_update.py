"""No Optimizer and no .grad: weights are replaced by new ones, gradients come from torch.autograd.grad."""

# truth: steps=60 marker=backward
import time

import torch

torch.manual_seed(0)
torch.set_num_threads(1)
x = torch.randn(512, 32)
y = x @ torch.randn(32, 1)
weights = [torch.zeros(32, 1, requires_grad=True), torch.zeros(1, requires_grad=True)]
begin = time.perf_counter()
for _ in range(60):
    loss = (x @ weights[0] + weights[1] - y).square().mean()
    gradients = torch.autograd.grad(loss, weights)
    weights = [(w - 0.05 * g).detach().requires_grad_() for w, g in zip(weights, gradients)]
    end = time.perf_counter()
    time.sleep(0.002)
print(f"loss {loss.item():.6f}")
print(f"perf: {end - begin:.6f}")
