"""Steps counted by hand: next() on an endless generator over a shuffled loader."""

# truth: steps=25 marker=update samples=200
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
torch.set_num_threads(1)
model = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 2))
optimizer = torch.optim.Adam(model.parameters())
loader = DataLoader(TensorDataset(torch.randn(64, 16), torch.randint(2, (64,))), batch_size=8, shuffle=True)


def forever(loader):
    while True:
        yield from loader


batches = forever(loader)
for _ in range(25):
    x, y = next(batches)
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.6f}")
