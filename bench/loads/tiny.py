"""As little as a step can be: one sample, one layer, one update. What is added shows best here."""

import argparse
import json
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=15_000)
parser.add_argument("--figures", required=True)
args = parser.parse_args()

torch.manual_seed(0)
torch.set_num_threads(1)
model = nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
data = TensorDataset(torch.randn(args.steps, 4), torch.randn(args.steps, 1))
walls, cpus = [], []
for x, y in DataLoader(data, batch_size=1):
    optimizer.zero_grad()
    loss = nn.functional.mse_loss(model(x), y)
    loss.backward()
    optimizer.step()
    walls.append(time.perf_counter_ns())
    cpus.append(time.thread_time_ns())
with open(args.figures, "w", encoding="utf-8") as file:
    json.dump({"wall_ns": walls, "cpu_ns": cpus}, file)
