"""torch.compile of a module class, whole graph or error, with an autograd backend."""

# truth: steps=12 marker=update
import torch
from torch import nn
from torch._dynamo.utils import counters

torch.manual_seed(0)
torch.set_num_threads(1)


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.head = nn.Linear(16, 64), nn.Linear(64, 2)

    def forward(self, x):
        return self.head(self.body(x).relu())


model = torch.compile(Net(), backend="aot_eager", fullgraph=True)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
x, y = torch.randn(32, 16), torch.randint(2, (32,))
for _ in range(12):
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.6f}")
print("compile", sorted((k, v) for k, v in counters["stats"].items()), sum(counters["graph_break"].values()))
