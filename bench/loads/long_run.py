"""Days of training in minutes: many tiny steps, and epochs whose loader workers are started anew."""

import argparse
import json
import os
import threading
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

LOADED = 50  # steps of an epoch that come from the loader


def state(step):
    with open("/proc/self/statm", encoding="ascii") as file:
        resident = int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return {
        "step": step,
        "cpu_ns": time.thread_time_ns(),
        "resident_bytes": resident,
        "threads": threading.active_count(),
        "tasks": len(os.listdir("/proc/self/task")),
        "files": len(os.listdir("/proc/self/fd")),
    }


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=3_000_000)
    parser.add_argument("--epochs", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=0.0, help="go on for so long, epoch after epoch")
    parser.add_argument("--figures", required=True)
    args = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
    data = TensorDataset(torch.randn(4 * LOADED, 4), torch.randn(4 * LOADED, 1))
    x, y = data[:4]

    def train(x, y):
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(x), y)
        loss.backward()
        optimizer.step()

    end_s, epoch, step, states = time.monotonic() + args.seconds, 0, 0, []
    while epoch < args.epochs or time.monotonic() < end_s:
        for loaded in DataLoader(data, batch_size=4, num_workers=1):
            train(*loaded)
        for _ in range(args.steps // args.epochs - LOADED):
            train(x, y)
        step += args.steps // args.epochs
        epoch += 1
        states.append(state(step))
    with open(args.figures, "w", encoding="utf-8") as file:
        json.dump(states, file)


if __name__ == "__main__":
    main()
