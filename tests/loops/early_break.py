"""Each epoch is cut short by a break, so that batches are fetched and iterators dropped."""

# truth: steps=15 marker=update
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
torch.set_num_threads(1)
model = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 2))
optimizer = torch.optim.Adam(model.parameters())
loader = DataLoader(TensorDataset(torch.randn(96, 16), torch.randint(2, (96,))), batch_size=8, shuffle=True)
for _ in range(3):
    for index, (x, y) in enumerate(loader):
        if index == 5:
            break
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
print(f"loss {loss.item():.6f}")
