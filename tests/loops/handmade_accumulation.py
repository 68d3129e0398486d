"""No Optimizer: gradients of four batches are accumulated in .grad, then the parameters are moved by hand."""

# truth: steps=12 marker=backward backwards_per_step=4
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
torch.set_num_threads(1)
model = nn.Sequential(nn.Linear(16, 256), nn.ReLU(), nn.Linear(256, 2))
loader = DataLoader(TensorDataset(torch.randn(192, 16), torch.randint(2, (192,))), batch_size=8)
begin = time.perf_counter()
for _ in range(2):
    for index, (x, y) in enumerate(loader):
        loss = nn.functional.cross_entropy(model(x), y) / 4
        loss.backward()
        time.sleep(0.002)
        if index % 4 == 3:
            with torch.no_grad():
                for p in model.parameters():
                    p -= 0.1 * p.grad
            model.zero_grad()
            end = time.perf_counter()
print(f"loss {loss.item():.6f}")
print(f"perf: {end - begin:.6f}")
