"""A frozen teacher in eval mode inside every step: part of the step, not a validation."""

# truth: steps=24 marker=update
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
torch.set_num_threads(1)
teacher = nn.Sequential(
    nn.Linear(32, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 4)
).eval()
teacher.requires_grad_(False)
student = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 4))
optimizer = torch.optim.Adam(student.parameters())
loader = DataLoader(TensorDataset(torch.randn(768, 32)), batch_size=64)
begin = time.perf_counter()
for _ in range(2):
    for (x,) in loader:
        with torch.no_grad():
            target = teacher(x).softmax(1)
        loss = nn.functional.kl_div(student(x).log_softmax(1), target, reduction="batchmean")
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        end = time.perf_counter()
print(f"loss {loss.item():.6f}")
print(f"perf: {end - begin:.6f} validation=0")
