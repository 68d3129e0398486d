"""Forecast the next day of electricity load from the last two weeks (residual MLP)."""
import csv
import math
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

SERIES, LENGTH = 40, 2400
HISTORY, HORIZON = 336, 24
BATCH = 256
EPOCHS = 12
STEPS_PER_EPOCH = 400
WARMUP = 200
LR = 1e-3
EMA_DECAY = 0.995
LOG_EVERY = 50


def make_load(seed=0):
    rng = np.random.default_rng(seed)
    t = np.arange(LENGTH)
    daily = np.sin(2 * np.pi * (t / 24 + rng.random((SERIES, 1))))
    weekly = np.sin(2 * np.pi * (t / 168 + rng.random((SERIES, 1))))
    drift = np.cumsum(rng.normal(scale=0.02, size=(SERIES, LENGTH)), axis=1)
    load = daily + 0.4 * weekly + drift + rng.normal(scale=0.15, size=(SERIES, LENGTH))
    return torch.from_numpy(load.astype(np.float32))


class ResidualBlock(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.fc1 = nn.Linear(dim, dim)
        self.fc2 = nn.Linear(dim, dim)

    def forward(self, x):
        return x + self.fc2(F.gelu(self.fc1(self.norm(x))))


class Forecaster(nn.Module):
    def __init__(self, dim=192, depth=2):
        super().__init__()
        self.inp = nn.Linear(HISTORY, dim)
        self.blocks = nn.Sequential(*[ResidualBlock(dim) for _ in range(depth)])
        self.out = nn.Linear(dim, HORIZON)

    def forward(self, x):
        level = x[:, -24:].mean(dim=1, keepdim=True)
        return self.out(self.blocks(self.inp(x - level))) + level


def windows(load, first, last):
    """All windows whose history starts in [first, last), as a view."""
    return load[:, first : last + HISTORY + HORIZON - 1].unfold(1, HISTORY + HORIZON, 1)


@torch.no_grad()
def validate(model, view):
    model.eval()
    err = []
    for series in view:
        batch = series[::12]
        err.append((model(batch[:, :HISTORY]) - batch[:, HISTORY:]).abs().mean())
    model.train()
    return torch.stack(err).mean().item()


def lr_at(step, total):
    if step < WARMUP:
        return (step + 1) / WARMUP
    return 0.5 * (1 + math.cos(math.pi * (step - WARMUP) / (total - WARMUP)))


def main():
    torch.manual_seed(0)
    load = make_load()
    split = LENGTH - 480 - HISTORY - HORIZON
    train_view = windows(load, 0, split)
    val_view = windows(load, split + HORIZON, LENGTH - HISTORY - HORIZON)

    model = Forecaster()
    opt = torch.optim.AdamW(model.parameters(), lr=LR, weight_decay=1e-3, fused=True)
    total = EPOCHS * STEPS_PER_EPOCH
    sched = torch.optim.lr_scheduler.LambdaLR(opt, lambda s: lr_at(s, total))
    params = list(model.parameters())
    ema = [p.detach().clone() for p in params]
    history = []
    step, start = 0, time.time()

    with tempfile.TemporaryDirectory() as tmp, open(Path(tmp) / "log.csv", "w") as fh:
        writer = csv.writer(fh)
        writer.writerow(["step", "loss", "lr", "grad_norm"])
        for epoch in range(EPOCHS):
            for _ in range(STEPS_PER_EPOCH):
                s = torch.randint(0, train_view.size(0), (BATCH,))
                t = torch.randint(0, train_view.size(1), (BATCH,))
                batch = train_view[s, t]
                noise = 0.02 * torch.randn(BATCH, HISTORY)
                pred = model(batch[:, :HISTORY] + noise)
                loss = F.smooth_l1_loss(pred, batch[:, HISTORY:])
                opt.zero_grad(set_to_none=True)
                loss.backward()
                norm = nn.utils.clip_grad_norm_(params, 1.0)
                opt.step()
                sched.step()
                with torch.no_grad():
                    torch._foreach_lerp_(ema, params, 1.0 - EMA_DECAY)
                history.append(loss.detach())
                step += 1
                if step % LOG_EVERY == 0:
                    row = [step, loss.item(), sched.get_last_lr()[0], norm.item()]
                    writer.writerow(row)
            mae = validate(model, val_view)
            mean = torch.stack(history[-STEPS_PER_EPOCH:]).mean().item()
            print(f"epoch {epoch:2d} loss {mean:.4f} val MAE {mae:.4f}", flush=True)
            if (epoch + 1) % 4 == 0:
                torch.save({"model": model.state_dict(), "ema": ema}, Path(tmp) / "last.pt")
        for p, e in zip(params, ema):
            p.data.copy_(e)
        print(f"done: ema val MAE {validate(model, val_view):.4f}, {step} steps "
              f"in {time.time() - start:.1f} s")


if __name__ == "__main__":
    main()
