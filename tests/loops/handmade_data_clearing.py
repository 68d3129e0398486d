"""No Optimizer, and all by `.data`: parameters are moved, and gradients zeroed, with no version raised."""

# truth: steps=24 marker=backward
import torch
from torch import nn

torch.manual_seed(0)
torch.set_num_threads(1)
model = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 2))
for _ in range(24):
    x, y = torch.randn(8, 16), torch.randint(2, (8,))
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    for p in model.parameters():
        p.data -= 0.1 * p.grad.data
        p.grad.data.zero_()
print(f"loss {loss.item():.6f}")
