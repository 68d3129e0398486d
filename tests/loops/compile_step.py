"""torch.compile of a whole training step: forward, loss, backward and update."""

# A compiled optimizer step cannot be seen without disturbing the compilation: backwards mark the steps.
# truth: steps=12 marker=backward stderr=varies
import torch
from torch import nn
from torch._dynamo.utils import counters

torch.manual_seed(0)
torch.set_num_threads(1)
model = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 2))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x, y = torch.randn(32, 16), torch.randint(2, (32,))


@torch.compile(backend="eager")
def step(x, y):
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    return loss


for _ in range(12):
    loss = step(x, y)
print(f"loss {loss.item():.6f}")
print("compile", sorted((k, v) for k, v in counters["stats"].items()), sum(counters["graph_break"].values()))
