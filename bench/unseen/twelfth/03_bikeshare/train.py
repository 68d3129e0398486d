"""Predicts the duration of bike-share trips; the trips live in a SQLite file."""
import argparse
import os
import random
import sqlite3
import tempfile
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, IterableDataset

STATIONS = 600
COLUMNS = "start_station, end_station, weekday, hour, member, temp, rain, wind, minutes"


def build_db(path, rows, seed=0):
    rng = np.random.default_rng(seed)
    a, b = rng.integers(0, STATIONS, (2, rows))
    weekday, hour = rng.integers(0, 7, rows), rng.integers(0, 24, rows)
    member = rng.integers(0, 2, rows)
    temp, rain, wind = rng.normal(15, 8, rows), rng.exponential(0.4, rows), rng.gamma(2.0, 2.0, rows)
    pos = rng.uniform(0, 8, (STATIONS, 2))
    dist = np.linalg.norm(pos[a] - pos[b], axis=1)
    minutes = 4 + dist * (3.5 + 0.8 * rain) * (1.3 - 0.3 * member) * rng.lognormal(0, 0.15, rows)
    con = sqlite3.connect(path)
    con.execute("CREATE TABLE trips (id INTEGER PRIMARY KEY, start_station INT, end_station INT, weekday INT, "
                "hour INT, member INT, temp REAL, rain REAL, wind REAL, minutes REAL)")
    rows_iter = zip(a.tolist(), b.tolist(), weekday.tolist(), hour.tolist(), member.tolist(),
                    temp.tolist(), rain.tolist(), wind.tolist(), minutes.tolist())
    con.executemany(f"INSERT INTO trips ({COLUMNS}) VALUES (?,?,?,?,?,?,?,?,?)", rows_iter)
    con.commit()
    con.close()


class TripStream(IterableDataset):
    """Endless random batches out of the trips table."""

    def __init__(self, path, batch):
        self.path, self.batch = path, batch

    def __iter__(self):
        con = sqlite3.connect(self.path)
        while True:
            rows = con.execute(f"SELECT {COLUMNS} FROM trips ORDER BY RANDOM() LIMIT ?", (self.batch,)).fetchall()
            table = torch.from_numpy(np.array(rows, dtype=np.float32))
            cats = table[:, :5].long()
            nums = (table[:, 5:8] - torch.tensor([15.0, 0.4, 4.0])) / torch.tensor([8.0, 0.4, 2.8])
            yield cats, nums, table[:, 8].log()


class Residual(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x):
        return x + self.down(F.gelu(self.up(self.norm(x))))


class TripNet(nn.Module):
    def __init__(self, width=192, depth=4):
        super().__init__()
        self.station = nn.Embedding(STATIONS, 48)
        self.weekday, self.hour, self.member = nn.Embedding(7, 8), nn.Embedding(24, 16), nn.Embedding(2, 4)
        self.inp = nn.Linear(48 * 2 + 8 + 16 + 4 + 3, width)
        self.body = nn.Sequential(*[Residual(width) for _ in range(depth)])
        self.out = nn.Linear(width, 1)

    def forward(self, cats, nums):
        x = torch.cat([self.station(cats[:, 0]), self.station(cats[:, 1]), self.weekday(cats[:, 2]),
                       self.hour(cats[:, 3]), self.member(cats[:, 4]), nums], dim=1)
        return self.out(self.body(self.inp(x))).squeeze(1)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=700)
    ap.add_argument("--batch", type=int, default=512)
    ap.add_argument("--rows", type=int, default=400_000)
    args = ap.parse_args()
    torch.manual_seed(0)
    random.seed(0)

    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "trips.sqlite")
        build_db(path, args.rows)
        loader = DataLoader(TripStream(path, args.batch), batch_size=None, num_workers=1, prefetch_factor=4)
        model = TripNet()
        opt = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=1e-4, fused=True)
        sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, args.steps)

        began, running = time.time(), 0.0
        for step, (cats, nums, target) in enumerate(loader, 1):
            loss = F.huber_loss(model(cats, nums), target, delta=0.5)
            opt.zero_grad()
            loss.backward()
            opt.step()
            sched.step()
            running += loss.item()
            if step % 50 == 0:
                print(f"step {step} loss {running / 50:.4f} {time.time() - began:.1f}s", flush=True)
                running = 0.0
            if step >= args.steps:
                break


if __name__ == "__main__":
    main()
