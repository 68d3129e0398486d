"""torch.compile of a module."""

# truth: steps=12 marker=update
import torch
from torch import nn
from torch._dynamo.utils import counters

torch.manual_seed(0)
torch.set_num_threads(1)
model = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 2))
compiled = torch.compile(model, backend="eager")
optimizer = torch.optim.Adam(model.parameters())
x, y = torch.randn(32, 16), torch.randint(2, (32,))
for _ in range(12):
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(compiled(x), y)
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.6f}")
print("compile", sorted((k, v) for k, v in counters["stats"].items()), sum(counters["graph_break"].values()))
