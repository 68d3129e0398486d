"""SAM in one step call: the optimizer runs the closure between its two halves."""

# truth: steps=20 marker=update
import torch
from torch import nn

torch.manual_seed(0)
torch.set_num_threads(1)


class SAM(torch.optim.SGD):
    def step(self, closure):
        parameters = [p for group in self.param_groups for p in group["params"]]
        with torch.no_grad():
            climbs = [p.grad * 0.01 for p in parameters]
            for p, climb in zip(parameters, climbs):
                p.add_(climb)
        self.zero_grad()
        with torch.enable_grad():
            loss = closure()
        with torch.no_grad():
            for p, climb in zip(parameters, climbs):
                p.sub_(climb)
        super().step()
        return loss


model = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 2))
optimizer = SAM(model.parameters(), lr=0.1)
x, y = torch.randn(64, 16), torch.randint(2, (64,))


def closure():
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    return loss


for _ in range(20):
    optimizer.zero_grad()
    closure()
    loss = optimizer.step(closure)
print(f"loss {loss.item():.6f}")
