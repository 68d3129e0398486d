"""Four micro-steps to an update; the last batches of an epoch that do not fill one are carried over."""

# truth: steps=12 marker=update backwards_per_step=4
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
torch.set_num_threads(1)
model = nn.Sequential(nn.Linear(32, 256), nn.ReLU(), nn.Linear(256, 4))
optimizer = torch.optim.AdamW(model.parameters())
loader = DataLoader(TensorDataset(torch.randn(192, 32), torch.randint(4, (192,))), batch_size=8)
begin = time.perf_counter()
for _ in range(2):
    optimizer.zero_grad()
    for index, (x, y) in enumerate(loader):
        loss = nn.functional.cross_entropy(model(x), y) / 4
        loss.backward()
        time.sleep(0.002)
        if (index + 1) % 4 == 0:
            optimizer.step()
            end = time.perf_counter()
            optimizer.zero_grad()
print(f"loss {loss.item():.6f}")
print(f"perf: {end - begin:.6f}")
