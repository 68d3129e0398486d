"""MAML: functional inner updates by autograd.grad for each task, one optimizer update outside."""

# truth: steps=10 marker=update
import torch
from torch import nn

torch.manual_seed(0)
torch.set_num_threads(1)
model = nn.Linear(8, 1)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-2)
for _ in range(10):
    total = 0.0
    for _ in range(3):
        x = torch.randn(16, 8)
        y = x @ torch.randn(8, 1)
        fast = list(model.parameters())
        for _ in range(2):
            inner = nn.functional.mse_loss(nn.functional.linear(x, *fast), y)
            gradients = torch.autograd.grad(inner, fast, create_graph=True)
            fast = [p - 0.05 * g for p, g in zip(fast, gradients)]
        total = total + nn.functional.mse_loss(nn.functional.linear(x, *fast), y)
    optimizer.zero_grad()
    total.backward()
    optimizer.step()
print(f"loss {total.item():.6f}")
