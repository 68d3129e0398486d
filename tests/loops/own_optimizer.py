"""An Optimizer subclass of the user's own, with a step of its own."""

# truth: steps=24 marker=update samples=192
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
torch.set_num_threads(1)


class SignDescent(torch.optim.Optimizer):
    def __init__(self, parameters, lr):
        super().__init__(parameters, {"lr": lr})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                p.sub_(p.grad.sign(), alpha=group["lr"])


model = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 2))
optimizer = SignDescent(model.parameters(), lr=1e-3)
loader = DataLoader(TensorDataset(torch.randn(96, 16), torch.randint(2, (96,))), batch_size=8)
for _ in range(2):
    for x, y in loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
print(f"loss {loss.item():.6f}")
