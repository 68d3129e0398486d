"""torch.compile of a function that calls two modules and the loss."""

# truth: steps=12 marker=update
import torch
from torch import nn
from torch._dynamo.utils import counters

torch.manual_seed(0)
torch.set_num_threads(1)
body, head = nn.Sequential(nn.Linear(16, 64), nn.ReLU()), nn.Linear(64, 2)
optimizer = torch.optim.Adam([*body.parameters(), *head.parameters()])
x, y = torch.randn(32, 16), torch.randint(2, (32,))


@torch.compile(backend="eager", fullgraph=True)
def loss_of(x, y):
    return nn.functional.cross_entropy(head(body(x)), y)


for _ in range(12):
    optimizer.zero_grad()
    loss = loss_of(x, y)
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.6f}")
print("compile", sorted((k, v) for k, v in counters["stats"].items()), sum(counters["graph_break"].values()))
