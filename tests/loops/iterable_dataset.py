"""An IterableDataset, batched by the loader, without a length."""

# truth: steps=26 marker=update samples=200
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset

torch.manual_seed(0)
torch.set_num_threads(1)


class Stream(IterableDataset):
    def __iter__(self):
        for index in range(100):
            time.sleep(0.0005)
            yield torch.full((8,), index / 100), torch.tensor([index % 3 / 3])


model = nn.Sequential(nn.Linear(8, 64), nn.ReLU(), nn.Linear(64, 1))
optimizer = torch.optim.RMSprop(model.parameters())
begin = time.perf_counter()
for _ in range(2):
    for x, y in DataLoader(Stream(), batch_size=8):
        loss = nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        end = time.perf_counter()
print(f"loss {loss.item():.6f}")
print(f"perf: {end - begin:.6f}")
