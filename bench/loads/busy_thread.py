"""A training loop beside a Python thread that never waits: both want the interpreter's lock."""

import argparse
import json
import threading
import time

import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, default=150)
parser.add_argument("--figures", required=True)
args = parser.parse_args()

torch.manual_seed(0)
torch.set_num_threads(1)
done = threading.Event()


def count():
    while not done.is_set():
        sum(range(1000))


thread = threading.Thread(target=count, daemon=True)
thread.start()
model = nn.Sequential(nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 10))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
x, y = torch.randn(64, 256), torch.randint(10, (64,))
walls, cpus = [], []
for _ in range(args.steps):
    optimizer.zero_grad()
    loss = nn.functional.cross_entropy(model(x), y)
    loss.backward()
    optimizer.step()
    walls.append(time.perf_counter_ns())
    cpus.append(time.thread_time_ns())
done.set()
thread.join()
with open(args.figures, "w", encoding="utf-8") as file:
    json.dump({"wall_ns": walls, "cpu_ns": cpus}, file)
