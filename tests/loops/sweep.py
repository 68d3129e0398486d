"""Three trainings one after the other in one script, each with its own model, optimizer and loader."""

# truth: steps=60 marker=update updates_per_step=1
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.set_num_threads(1)


def train(rate, seed):
    torch.manual_seed(seed)
    model = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 2))
    optimizer = torch.optim.SGD(model.parameters(), lr=rate)
    loader = DataLoader(TensorDataset(torch.randn(160, 16), torch.randint(2, (160,))), batch_size=8)
    begins.append(time.perf_counter())
    for x, y in loader:
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        ends.append(time.perf_counter())
        time.sleep(0.002)
    return loss.item()


begins, ends = [], []
for seed, rate in enumerate((0.3, 0.1, 0.03)):
    print(f"rate {rate}: {train(rate, seed):.6f}")
print(f"perf: {ends[-1] - begins[0]:.6f}")
