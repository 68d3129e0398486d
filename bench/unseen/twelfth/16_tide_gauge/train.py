"""Forecast the water level at tide gauges with a recurrent net that keeps its memory
(orthogonal recurrence, modReLU-like gate, several gauges as inputs)."""
import argparse
import csv
import math
import os
import tempfile
import time

import torch
import torch.nn as nn
from torch.nn.utils.parametrizations import orthogonal

PERIODS = [12.42, 12.0, 12.66, 11.97, 23.93, 25.82, 26.87, 327.9, 661.3]


def make_series(hours, gauges, seed=0):
    g = torch.Generator().manual_seed(seed)
    t = torch.arange(hours, dtype=torch.float32)
    level = torch.zeros(hours, gauges)
    for p in PERIODS:
        amp = torch.rand(gauges, generator=g) * 0.8
        phase = torch.rand(gauges, generator=g) * 2 * math.pi
        level += amp * torch.sin(2 * math.pi * t[:, None] / p + phase)
    surge = torch.randn(hours, gauges, generator=g)
    kernel = torch.exp(-torch.arange(48.0) / 12)
    surge = torch.nn.functional.conv1d(surge.T[:, None], kernel.flip(0)[None, None], padding=47)
    return level + 0.08 * surge[:, 0, :hours].T


class OrthoCell(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.recurrent = orthogonal(nn.Linear(hidden, hidden, bias=False), orthogonal_map="cayley")
        self.bias = nn.Parameter(torch.full((hidden,), -0.01))
        self.gate = nn.Linear(hidden, hidden)

    def forward(self, drive, h):
        z = drive + self.recurrent(h)
        h = torch.sign(z) * torch.relu(z.abs() + self.bias)
        return h * torch.sigmoid(self.gate(h))


class TideNet(nn.Module):
    def __init__(self, gauges, hidden, horizon):
        super().__init__()
        self.encode = nn.Sequential(nn.Linear(gauges, hidden), nn.GELU(), nn.Linear(hidden, hidden))
        self.cell = OrthoCell(hidden)
        self.head = nn.Sequential(nn.LayerNorm(hidden), nn.Linear(hidden, 2 * hidden), nn.GELU(),
                                  nn.Linear(2 * hidden, gauges * horizon))
        self.hidden = hidden
        self.shape = (horizon, gauges)

    def forward(self, x):
        h = x.new_zeros(x.shape[0], self.hidden)
        states = []
        for drive in self.encode(x).unbind(1):
            h = self.cell(drive, h)
            states.append(h)
        out = self.head(torch.stack(states[-8:], dim=1))
        return out.unflatten(-1, self.shape)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=480)
    ap.add_argument("--batch", type=int, default=160)
    ap.add_argument("--window", type=int, default=48)
    ap.add_argument("--horizon", type=int, default=6)
    ap.add_argument("--hidden", type=int, default=96)
    ap.add_argument("--lr", type=float, default=1e-3)
    args = ap.parse_args()

    torch.manual_seed(1)
    gauges = 14
    series = make_series(30_000, gauges)
    series = (series - series.mean(0)) / series.std(0)
    span = args.window + args.horizon
    clips = series.unfold(0, span, 1).transpose(1, 2)      # a view: (starts, span, gauges)
    split = len(clips) - 2500
    lead = torch.arange(8)[:, None] + torch.arange(1, args.horizon + 1)[None, :] + args.window - 8

    model = TideNet(gauges, args.hidden, args.horizon)
    opt = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=1e-4)
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, args.lr * 2, total_steps=args.steps)
    loss_fn = nn.SmoothL1Loss()

    def loss_of(idx):
        clip = clips[idx]
        y = clip[:, lead - 1]                               # (B, 8, horizon, gauges)
        return loss_fn(model(clip[:, : args.window]), y)

    path = os.path.join(tempfile.mkdtemp(), "tides.csv")
    t0 = time.time()
    with open(path, "w", newline="") as f:
        log = csv.writer(f)
        log.writerow(["step", "loss", "grad_norm"])
        for step in range(1, args.steps + 1):
            loss = loss_of(torch.randint(split, (args.batch,)))
            opt.zero_grad()
            loss.backward()
            norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            opt.step()
            sched.step()
            log.writerow([step, f"{loss.item():.5f}", f"{norm.item():.4f}"])

            if step % 100 == 0:
                model.eval()
                with torch.no_grad():
                    val = loss_of(torch.arange(split, len(clips), 10)).item()
                model.train()
                print(f"step {step:4d}  train {loss.item():.4f}  val {val:.4f}  "
                      f"{1000 * (time.time() - t0) / step:.1f} ms/step")


if __name__ == "__main__":
    main()
