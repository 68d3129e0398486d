"""Batches of unequal size from a batch_sampler of the user's own."""

# truth: steps=20 marker=update samples=110
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
torch.set_num_threads(1)


class Growing:
    def __iter__(self):
        start = 0
        for size in range(1, 11):
            yield list(range(start, start + size))
            start += size

    def __len__(self):
        return 10


data = TensorDataset(torch.randn(55, 8), torch.randn(55, 1))
model = nn.Linear(8, 1)
optimizer = torch.optim.Adagrad(model.parameters(), lr=0.1)
for _ in range(2):
    for x, y in DataLoader(data, batch_sampler=Growing()):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()
print(f"loss {loss.item():.6f}")
