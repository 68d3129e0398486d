"""Day-ahead load forecasts for all feeders of a distribution grid with one global N-BEATS-like model."""
import argparse
import logging
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from torch import nn

log = logging.getLogger("feeders")


def synthesize(n_feeders, hours, seed):
    rng = np.random.default_rng(seed)
    t = np.arange(hours)
    kind = rng.integers(0, 3, n_feeders)                      # homes, offices, works
    daily = np.stack([np.exp(-((t % 24 - 19) / 3.5) ** 2) + 0.5 * np.exp(-((t % 24 - 7) / 2) ** 2),
                      np.exp(-((t % 24 - 13) / 4.5) ** 4), 0.7 + 0.2 * np.sin(2 * np.pi * t / 24)])
    weekend = np.stack([np.full(hours, 1.0), *(np.where(t // 24 % 7 < 5, 1.0, f) for f in (0.35, 0.6))])
    temp = 10 - 9 * np.cos(2 * np.pi * t / 8760) + 4 * np.sin(2 * np.pi * (t - 9) / 24)
    load = (daily * weekend)[kind] * rng.lognormal(0, 0.5, (n_feeders, 1))
    load = load * (1 + rng.uniform(0.0, 0.03, (n_feeders, 1)) * np.maximum(15 - temp, 0))
    noise = rng.normal(0, 0.05, (n_feeders, hours))
    for i in range(1, 4):
        noise[:, i:] += 0.4 ** i * noise[:, :-i]
    names = [f"F{k:03d}" for k in range(n_feeders)]
    index = pd.date_range("2022-01-01", periods=hours, freq="h")
    return pd.DataFrame((load + noise * load.mean(1, keepdims=True)).T, index=index, columns=names), temp.astype(np.float32)


class WindowSampler:
    """One random window per feeder; each window is scaled by its own mean."""

    def __init__(self, frame, temp, lookback, horizon, seed):
        self.load = np.ascontiguousarray(frame.to_numpy(dtype=np.float32).T)
        hour = frame.index.hour.to_numpy() / 24 * 2 * np.pi
        dow = frame.index.day_of_week.to_numpy() / 7 * 2 * np.pi
        self.cov = np.stack([np.sin(hour), np.cos(hour), np.sin(dow), np.cos(dow), (temp - 10) / 10], 1).astype(np.float32)
        self.lookback, self.horizon = lookback, horizon
        self.rng = np.random.default_rng(seed)

    def batch(self, starts=None):
        n, hours = self.load.shape
        if starts is None:
            starts = self.rng.integers(0, hours - self.lookback - self.horizon, n)
        past = starts[:, None] + np.arange(self.lookback)
        future = starts[:, None] + self.lookback + np.arange(self.horizon)
        rows = np.arange(n)[:, None]
        x, y = self.load[rows, past], self.load[rows, future]
        scale = np.abs(x).mean(1, keepdims=True) + 1e-6
        cov = self.cov[future].reshape(n, -1)
        return torch.from_numpy(x / scale), torch.from_numpy(cov), torch.from_numpy(y / scale), starts


class Block(nn.Module):
    def __init__(self, lookback, horizon, n_cov, width):
        super().__init__()
        self.trunk = nn.Sequential(nn.Linear(lookback + n_cov, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(),
                                   nn.Linear(width, width), nn.ReLU())
        self.backcast = nn.Linear(width, lookback)
        self.forecast = nn.Linear(width, horizon)

    def forward(self, residual, cov):
        h = self.trunk(torch.cat([residual, cov], 1))
        return residual - self.backcast(h), self.forecast(h)


class Forecaster(nn.Module):
    def __init__(self, lookback, horizon, n_cov, width, blocks):
        super().__init__()
        self.blocks = nn.ModuleList(Block(lookback, horizon, n_cov, width) for _ in range(blocks))

    def forward(self, x, cov):
        residual, total = x, 0
        for block in self.blocks:
            residual, f = block(residual, cov)
            total = total + f
        return total


class ErrorBook:
    """Errors of every feeder over the training, for the planners' plots."""

    def __init__(self, path, feeders):
        self.path, self.feeders = path, feeders
        self.file = open(path, "w", newline="")

    def add(self, step, mae, bias, starts):
        rows = pd.DataFrame({"step": step, "feeder": self.feeders, "window": starts, "mae": mae, "bias": bias})
        rows.to_csv(self.file, index=False, header=step == 1)


@torch.no_grad()
def validate(model, sampler, n_windows=4):
    model.eval()
    errs = []
    for k in range(n_windows):
        x, cov, y, _ = sampler.batch(np.full(sampler.load.shape[0], 24 * k))
        errs.append((model(x, cov) - y).abs().mean())
    model.train()
    return torch.stack(errs).mean().item()


def parse():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--feeders", type=int, default=280)
    p.add_argument("--hours", type=int, default=24 * 400)
    p.add_argument("--lookback", type=int, default=168)
    p.add_argument("--horizon", type=int, default=24)
    p.add_argument("--width", type=int, default=448)
    p.add_argument("--blocks", type=int, default=6)
    p.add_argument("--steps", type=int, default=240)
    p.add_argument("--lr", type=float, default=7e-4)
    p.add_argument("--seed", type=int, default=11)
    p.add_argument("--out", type=Path, default=Path("/tmp/feeders"))
    return p.parse_args()


def main():
    args = parse()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
    torch.manual_seed(args.seed)
    args.out.mkdir(parents=True, exist_ok=True)
    frame, temp = synthesize(args.feeders, args.hours, args.seed)
    cut = args.hours - 24 * 21
    train = WindowSampler(frame.iloc[:cut], temp[:cut], args.lookback, args.horizon, args.seed)
    valid = WindowSampler(frame.iloc[cut:], temp[cut:], args.lookback, args.horizon, args.seed)
    model = Forecaster(args.lookback, args.horizon, train.cov.shape[1] * args.horizon, args.width, args.blocks)
    opt = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=1e-3)
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, max_lr=args.lr, total_steps=args.steps)
    book = ErrorBook(args.out / "errors.csv", list(frame.columns))
    best = float("inf")
    log.info("%d feeders, %.1f M parameters", args.feeders, sum(p.numel() for p in model.parameters()) / 1e6)

    for step in range(1, args.steps + 1):
        x, cov, y, starts = train.batch()
        pred = model(x, cov)
        err = pred - y
        loss = nn.functional.smooth_l1_loss(pred, y, beta=0.3)
        opt.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        sched.step()
        err = err.detach()
        book.add(step, err.abs().mean(1).numpy(), err.mean(1).numpy(), starts)
        if step % 40 == 0:
            val = validate(model, valid)
            log.info("step %d loss %.4f val mae %.4f lr %.2e", step, loss.item(), val, sched.get_last_lr()[0])
            if val < best:
                best = val
                torch.save(model.state_dict(), args.out / "best.pt")


if __name__ == "__main__":
    main()
