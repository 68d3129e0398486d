"""Day-ahead storm surge forecast for one gauge from a month of readings at eight gauges."""
import argparse
import math
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils import parametrize
from torch.nn.utils.parametrizations import orthogonal

GAUGES, HOURS, MONTH = 8, 24, 28


def make_series(days, seed):
    rng = np.random.default_rng(seed)
    t = np.arange(days * HOURS, dtype=np.float32)
    series = np.zeros((len(t), GAUGES), dtype=np.float32)
    wind = np.cumsum(rng.normal(0, 0.05, len(t))).astype(np.float32)
    wind -= np.convolve(wind, np.ones(240) / 240, mode="same").astype(np.float32)
    for g in range(GAUGES):
        for period, amp in ((12.42, 1.2), (12.0, 0.45), (23.93, 0.25), (25.82, 0.2)):
            series[:, g] += amp * np.cos(2 * math.pi * t / period + 0.3 * g * period / 12)
        series[:, g] += 0.6 * np.roll(wind, 2 * g)
    series += rng.normal(0, 0.03, series.shape).astype(np.float32)
    series = (series - series.mean(0)) / series.std(0)
    return torch.from_numpy(series.reshape(days, HOURS * GAUGES))


class LeakyCell(nn.Module):
    """Leaky recurrent unit whose recurrent matrix stays on the orthogonal group."""

    def __init__(self, width, leak=0.6):
        super().__init__()
        self.inp = nn.Linear(width, width)
        self.rec = orthogonal(nn.Linear(width, width, bias=False), orthogonal_map="cayley")
        self.leak = leak

    def forward(self, drive, h):
        return torch.lerp(h, torch.tanh(drive + self.rec(h)), self.leak)


class SurgeNet(nn.Module):
    def __init__(self, width=128, hidden=192):
        super().__init__()
        self.day = nn.Sequential(
            nn.Linear(HOURS * GAUGES, hidden), nn.GELU(),
            nn.Linear(hidden, hidden), nn.GELU(), nn.Linear(hidden, width),
        )
        self.cell = LeakyCell(width)
        self.head = nn.Sequential(nn.Linear(width, 128), nn.GELU(), nn.Linear(128, HOURS))
        self.width = width

    def forward(self, x):
        drive = self.cell.inp(self.day(x))
        h = x.new_zeros(x.shape[0], self.width)
        for d in drive.unbind(1):
            h = self.cell(d, h)
        return self.head(h)


def windows(series, starts):
    days = starts[:, None] + torch.arange(MONTH + 1)
    block = series[days]
    return block[:, :MONTH], block[:, MONTH].view(-1, HOURS, GAUGES)[:, :, 0]


@torch.no_grad()
def validate(model, series):
    model.eval()
    with parametrize.cached():
        x, y = windows(series, torch.arange(0, len(series) - MONTH, 4))
        rmse = F.mse_loss(model(x), y).sqrt().item()
    model.train()
    return rmse


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=900)
    ap.add_argument("--batch", type=int, default=64)
    ap.add_argument("--lr", type=float, default=1e-3)
    args = ap.parse_args()
    torch.manual_seed(3)

    series = make_series(6000, seed=0)
    train, valid = series[:5200], series[5200:]
    model = SurgeNet()
    opt = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=1e-4, fused=True)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, args.steps)

    began, running = time.time(), 0.0
    for step in range(1, args.steps + 1):
        x, y = windows(train, torch.randint(0, len(train) - MONTH, (args.batch,)))
        opt.zero_grad()
        pred = model(x)
        loss = F.smooth_l1_loss(pred, y)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        sched.step()
        running += loss.item()
        if step % 50 == 0:
            print(f"step {step} loss {running / 50:.4f} {time.time() - began:.1f}s", flush=True)
            running = 0.0
        if step % 300 == 0:
            print(f"  valid rmse {validate(model, valid):.4f}", flush=True)


if __name__ == "__main__":
    main()
