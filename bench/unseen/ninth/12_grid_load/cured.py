"""Day-ahead load forecasting for a set of substations with a temporal convolution net.

    python train.py --epochs 1
"""
import argparse
import json
import math
import time

import numpy as np
import pandas as pd
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset

COVARIATES = ["load", "temperature", "wind", "hour_sin", "hour_cos", "dow_sin", "dow_cos"]


def make_table(stations, hours, seed):
    """Long table, one row per station and hour, as the grid operator exports it."""
    rng = np.random.default_rng(seed)
    index = pd.date_range("2021-01-01", periods=hours, freq="h")
    t = np.arange(hours)
    frames = []
    for s in range(stations):
        base = rng.uniform(20, 120)
        daily = 0.25 * np.sin(2 * np.pi * (t - rng.uniform(6, 10)) / 24)
        weekly = 0.10 * np.sin(2 * np.pi * t / 168 + rng.uniform(0, 1))
        temperature = 12 + 9 * np.sin(2 * np.pi * t / 8760) + np.cumsum(rng.normal(0, 0.05, hours))
        wind = np.abs(rng.normal(5, 2, hours))
        load = base * (1 + daily + weekly + 0.01 * (temperature - 15) + rng.normal(0, 0.03, hours))
        frames.append(pd.DataFrame({"station": s, "time": index, "load": load,
                                    "temperature": temperature, "wind": wind}))
    df = pd.concat(frames, ignore_index=True)
    hour = df["time"].dt.hour
    dow = df["time"].dt.day_of_week
    df["hour_sin"], df["hour_cos"] = np.sin(2 * np.pi * hour / 24), np.cos(2 * np.pi * hour / 24)
    df["dow_sin"], df["dow_cos"] = np.sin(2 * np.pi * dow / 7), np.cos(2 * np.pi * dow / 7)
    return df


class LoadWindows(Dataset):
    """Sliding windows of `history` hours with the following `horizon` hours as target."""

    def __init__(self, df, history, horizon, stride):
        self.history, self.horizon = history, horizon
        self.frames = []
        self.index = []
        for station, frame in df.groupby("station"):
            frame = frame.sort_values("time").set_index("time")
            stats = frame[["load", "temperature", "wind"]].agg(["mean", "std"])
            for name in stats.columns:
                frame[name] = (frame[name] - stats.loc["mean", name]) / stats.loc["std", name]
            self.frames.append(torch.tensor(frame[COVARIATES].to_numpy(), dtype=torch.float32))
            last = len(frame) - history - horizon
            self.index += [(len(self.frames) - 1, start) for start in range(0, last, stride)]

    def __len__(self):
        return len(self.index)

    def __getitem__(self, i):
        station, start = self.index[i]
        frame = self.frames[station]
        window = frame[start:start + self.history]
        future = frame[start + self.history:start + self.history + self.horizon]
        return window.t(), future[:, 3:], future[:, 0], station


class Block(nn.Module):
    def __init__(self, width, dilation):
        super().__init__()
        self.pad = 2 * dilation
        self.conv = nn.Conv1d(width, 2 * width, 3, dilation=dilation)
        self.out = nn.Conv1d(width, width, 1)
        self.norm = nn.GroupNorm(4, width)

    def forward(self, x):
        a, b = self.conv(nn.functional.pad(x, (self.pad, 0))).chunk(2, 1)
        return self.norm(x + self.out(torch.tanh(a) * torch.sigmoid(b)))


class LoadNet(nn.Module):
    def __init__(self, stations, horizon, width, levels):
        super().__init__()
        self.station = nn.Embedding(stations, width)
        self.inp = nn.Conv1d(len(COVARIATES), width, 1)
        self.blocks = nn.ModuleList(Block(width, 2 ** i) for i in range(levels))
        self.known = nn.Linear(4, width)
        self.head = nn.Sequential(nn.Linear(2 * width, 64), nn.ReLU(), nn.Linear(64, 1))

    def forward(self, x, known, station):
        h = self.inp(x) + self.station(station)[:, :, None]
        for block in self.blocks:
            h = block(h)
        ctx = h[:, :, -1:].transpose(1, 2).expand(-1, known.shape[1], -1)
        return self.head(torch.cat([ctx, self.known(known)], -1)).squeeze(-1)


@torch.no_grad()
def validate(model, loader):
    model.eval()
    total, count = torch.zeros(()), 0
    for x, known, y, station in loader:
        total += (model(x, known, station) - y).abs().sum()
        count += y.numel()
    model.train()
    return (total / count).item()


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--stations", type=int, default=24)
    p.add_argument("--hours", type=int, default=24 * 365)
    p.add_argument("--history", type=int, default=168)
    p.add_argument("--horizon", type=int, default=24)
    p.add_argument("--stride", type=int, default=12)
    p.add_argument("--epochs", type=int, default=1)
    p.add_argument("--batch-size", type=int, default=64)
    p.add_argument("--width", type=int, default=24)
    p.add_argument("--levels", type=int, default=5)
    p.add_argument("--lr", type=float, default=2e-3)
    p.add_argument("--log-every", type=int, default=50)
    p.add_argument("--seed", type=int, default=0)
    args = p.parse_args()
    torch.manual_seed(args.seed)
    torch.set_num_threads(2)

    df = make_table(args.stations, args.hours, args.seed)
    split = df["time"].min() + pd.Timedelta(hours=int(args.hours * 0.9))
    train_set = LoadWindows(df[df["time"] < split], args.history, args.horizon, args.stride)
    valid_set = LoadWindows(df[df["time"] >= split], args.history, args.horizon, 24)
    train = DataLoader(train_set, batch_size=args.batch_size, shuffle=True, drop_last=True)
    valid = DataLoader(valid_set, batch_size=256)
    model = LoadNet(args.stations, args.horizon, args.width, args.levels)
    opt = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=1e-3)
    total = args.epochs * len(train)
    sched = torch.optim.lr_scheduler.LambdaLR(
        opt, lambda s: min(1.0, (s + 1) / 50) * 0.5 * (1 + math.cos(math.pi * min(s / total, 1))))
    print(f"{len(train_set)} training windows, {total} steps")

    step, started, running = 0, time.time(), torch.zeros(())
    for epoch in range(args.epochs):
        for x, known, y, station in train:
            pred = model(x, known, station)
            loss = nn.functional.smooth_l1_loss(pred, y)
            opt.zero_grad(set_to_none=True)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            opt.step()
            sched.step()
            running += loss.detach()
            step += 1
            if step % args.log_every == 0:
                print(json.dumps({"step": step, "loss": round(running.item() / args.log_every, 4),
                                  "ms": round(1000 * (time.time() - started) / step, 1)}), flush=True)
                running.zero_()
        print(json.dumps({"epoch": epoch, "valid_mae": round(validate(model, valid), 4)}), flush=True)


if __name__ == "__main__":
    main()
