"""No Optimizer: p.data is moved along p.grad, gradients are zeroed in place."""

# truth: steps=24 marker=backward samples=192
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
torch.set_num_threads(1)
model = nn.Sequential(nn.Linear(16, 256), nn.ReLU(), nn.Linear(256, 2))
loader = DataLoader(TensorDataset(torch.randn(96, 16), torch.randint(2, (96,))), batch_size=8)
begin = time.perf_counter()
for _ in range(2):
    for x, y in loader:
        model.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        for p in model.parameters():
            p.data.add_(p.grad, alpha=-0.1)
        end = time.perf_counter()
        time.sleep(0.004)
print(f"loss {loss.item():.6f}")
print(f"perf: {end - begin:.6f}")
