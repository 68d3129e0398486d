"""torch.autograd.backward on two losses at once."""

# truth: steps=24 marker=update backwards_per_step=1
import torch
from torch import nn

torch.manual_seed(0)
torch.set_num_threads(1)
trunk, first, second = nn.Linear(16, 64), nn.Linear(64, 2), nn.Linear(64, 1)
optimizer = torch.optim.Adam([*trunk.parameters(), *first.parameters(), *second.parameters()])
x, labels, values = torch.randn(32, 16), torch.randint(2, (32,)), torch.randn(32, 1)
for _ in range(24):
    hidden = trunk(x).relu()
    losses = [
        nn.functional.cross_entropy(first(hidden), labels),
        nn.functional.mse_loss(second(hidden), values),
    ]
    optimizer.zero_grad()
    torch.autograd.backward(losses)
    optimizer.step()
print("losses", *(f"{loss.item():.6f}" for loss in losses))
