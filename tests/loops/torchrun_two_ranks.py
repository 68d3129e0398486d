"""DistributedDataParallel over gloo; started as two processes by torchrun."""

# truth: steps=12 marker=update ranks=2 launcher=torchrun stderr=varies
import os
import time

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler

torch.manual_seed(0)
torch.set_num_threads(1)
dist.init_process_group("gloo")
model = DistributedDataParallel(nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 2)))
optimizer = torch.optim.Adam(model.parameters())
data = TensorDataset(torch.randn(96, 16), torch.randint(2, (96,)))
sampler = DistributedSampler(data)
for epoch in range(2):
    sampler.set_epoch(epoch)
    for x, y in DataLoader(data, batch_size=8, sampler=sampler):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
if os.environ["RANK"] == "0":
    print(f"loss {loss.item():.6f}")
dist.destroy_process_group()
time.sleep(0.5)  # torch 2.13 aborts a process that ends while gloo's threads still let go of the last calls
