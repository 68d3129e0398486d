"""Four loader workers that wait for their samples as for a disk, and a small model."""

import argparse
import json
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Waiting(Dataset):
    def __init__(self, steps):
        self.count = 32 * steps

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        time.sleep(0.0005)
        return torch.full((256,), index / self.count), index % 10


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--figures", required=True)
    args = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = nn.Sequential(nn.Linear(256, 256), nn.ReLU(), nn.Linear(256, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    walls, cpus = [], []
    for x, y in DataLoader(Waiting(args.steps), batch_size=32, num_workers=4):
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(x), y)
        loss.backward()
        optimizer.step()
        walls.append(time.perf_counter_ns())
        cpus.append(time.thread_time_ns())
    with open(args.figures, "w", encoding="utf-8") as file:
        json.dump({"wall_ns": walls, "cpu_ns": cpus}, file)


if __name__ == "__main__":
    main()
