"""About 50 ms a step: a small CNN, one thread."""

import argparse
import json
import time

import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=80)
parser.add_argument("--figures", required=True)
args = parser.parse_args()

torch.manual_seed(0)
torch.set_num_threads(1)
model = nn.Sequential(
    nn.Conv2d(3, 32, 3, padding=1), nn.BatchNorm2d(32), nn.ReLU(), nn.MaxPool2d(2),
    nn.Conv2d(32, 64, 3, padding=1), nn.BatchNorm2d(64), nn.ReLU(), nn.MaxPool2d(2),
    nn.Flatten(), nn.Linear(64 * 8 * 8, 10),
)  # fmt: skip
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
x, y = torch.randn(32, 3, 32, 32), torch.randint(10, (32,))
walls, cpus = [], []
for _ in range(args.steps):
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    walls.append(time.perf_counter_ns())
    cpus.append(time.thread_time_ns())
with open(args.figures, "w", encoding="utf-8") as file:
    json.dump({"wall_ns": walls, "cpu_ns": cpus}, file)
