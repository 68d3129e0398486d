"""A wrapper (look-ahead) that is an Optimizer itself and whose step calls another's."""

# truth: steps=24 marker=update samples=192
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
torch.set_num_threads(1)


class LookAhead(torch.optim.Optimizer):
    def __init__(self, inner, every=5, share=0.5):
        self.inner, self.every, self.share, self.count = inner, every, share, 0
        super().__init__(inner.param_groups[0]["params"], {})
        self.slow = [p.detach().clone() for p in inner.param_groups[0]["params"]]

    def zero_grad(self, set_to_none=True):
        self.inner.zero_grad(set_to_none)

    @torch.no_grad()
    def step(self, closure=None):
        self.inner.step()
        self.count += 1
        if self.count % self.every == 0:
            for slow, fast in zip(self.slow, self.inner.param_groups[0]["params"]):
                slow.lerp_(fast, self.share)
                fast.copy_(slow)


model = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 2))
optimizer = LookAhead(torch.optim.Adam(model.parameters(), lr=1e-2))
loader = DataLoader(TensorDataset(torch.randn(96, 16), torch.randint(2, (96,))), batch_size=8)
for _ in range(2):
    for x, y in loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
print(f"loss {loss.item():.6f}")
