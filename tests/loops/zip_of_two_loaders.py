"""Two loaders read in step (labelled and unlabelled), the longer one cut by zip."""

# truth: steps=20 marker=update
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
torch.set_num_threads(1)
model = nn.Sequential(nn.Linear(16, 128), nn.ReLU(), nn.Linear(128, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
labelled = DataLoader(TensorDataset(torch.randn(80, 16), torch.randint(4, (80,))), batch_size=8)
unlabelled = DataLoader(TensorDataset(torch.randn(200, 16)), batch_size=16)
begin = time.perf_counter()
for _ in range(2):
    for (x, y), (other,) in zip(labelled, unlabelled):
        loss = nn.functional.cross_entropy(model(x), y)
        loss = loss - 0.1 * model(other).softmax(1).max(1).values.mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        end = time.perf_counter()
        time.sleep(0.005)
print(f"loss {loss.item():.6f}")
print(f"perf: {end - begin:.6f}")
