"""Predict the next reading of a bank of sensors from its last 64 readings."""
import csv
import math
import os
import random
import tempfile

import numpy as np
import torch
from torch import nn

N_SENSORS = 8
HISTORY = 64
ROWS = 45_000
STEPS = 1000
BATCH = 64


def write_log(path):
    rnd = random.Random(1)
    with open(path, "w", newline="") as f:
        w = csv.writer(f)
        w.writerow(["t"] + [f"s{i}" for i in range(N_SENSORS)])
        for t in range(ROWS):
            w.writerow([t] + [f"{math.sin(t / (20 + 7 * i)) + rnd.gauss(0, 0.1):.5f}" for i in range(N_SENSORS)])


def read_log(path):
    data = np.empty((0, N_SENSORS), dtype=np.float64)
    with open(path) as f:
        reader = csv.reader(f)
        next(reader)
        for line in reader:
            values = np.array([[float(v) for v in line[1:]]])
            data = np.append(data, values, axis=0)
    data = (data - data.mean(0)) / data.std(0)
    return torch.from_numpy(data.astype(np.float32))


class Forecaster(nn.Module):
    def __init__(self, hidden=64):
        super().__init__()
        self.rnn = nn.GRU(N_SENSORS, hidden, batch_first=True)
        self.out = nn.Linear(hidden, N_SENSORS)

    def forward(self, x):
        h, _ = self.rnn(x)
        return self.out(h[:, -1])


def main():
    torch.manual_seed(1)
    with tempfile.TemporaryDirectory() as tmp:
        path = os.path.join(tmp, "plant.csv")
        write_log(path)
        series = read_log(path)
    print("series", tuple(series.shape))
    windows = series.unfold(0, HISTORY + 1, 1).transpose(1, 2)
    model = Forecaster()
    opt = torch.optim.Adam(model.parameters(), lr=2e-3)
    g = torch.Generator().manual_seed(2)
    for step in range(1, STEPS + 1):
        pick = torch.randint(0, len(windows), (BATCH,), generator=g)
        chunk = windows[pick]
        loss = nn.functional.mse_loss(model(chunk[:, :-1]), chunk[:, -1])
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        if step % 100 == 0:
            print(step, round(loss.item(), 5))


if __name__ == "__main__":
    main()
