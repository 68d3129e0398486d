"""SAM: two forwards and backwards to one update; only the second half calls an inner optimizer's step."""

# truth: steps=20 marker=update backwards_per_step=2
import torch
from torch import nn

torch.manual_seed(0)
torch.set_num_threads(1)


class SAM(torch.optim.Optimizer):
    def __init__(self, params, base, rho=0.05, **options):
        super().__init__(params, {"rho": rho, **options})
        self.base = base(self.param_groups, **options)
        self.param_groups = self.base.param_groups

    @torch.no_grad()
    def first_step(self):
        parameters = [p for group in self.param_groups for p in group["params"]]
        norm = torch.stack([p.grad.norm() for p in parameters]).norm()
        for p in parameters:
            self.state[p]["climb"] = p.grad * (0.05 / norm)
            p.add_(self.state[p]["climb"])
        self.zero_grad()

    @torch.no_grad()
    def second_step(self):
        for group in self.param_groups:
            for p in group["params"]:
                p.sub_(self.state[p]["climb"])
        self.base.step()
        self.zero_grad()


model = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 2))
optimizer = SAM(model.parameters(), torch.optim.SGD, lr=0.1)
x, y = torch.randn(64, 16), torch.randint(2, (64,))
for _ in range(20):
    nn.functional.cross_entropy(model(x), y).backward()
    optimizer.first_step()
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.second_step()
print(f"loss {loss.item():.6f}")
