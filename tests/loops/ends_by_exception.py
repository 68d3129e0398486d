"""Ends by an exception in the middle of the second epoch."""

# truth: steps=17 marker=update exit=1
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
torch.set_num_threads(1)
model = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 2))
optimizer = torch.optim.Adam(model.parameters())
loader = DataLoader(TensorDataset(torch.randn(96, 16), torch.randint(2, (96,))), batch_size=8)
for epoch in range(2):
    for index, (x, y) in enumerate(loader):
        optimizer.zero_grad()
        if epoch == 1 and index == 5:
            x = x[:, :7]
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
