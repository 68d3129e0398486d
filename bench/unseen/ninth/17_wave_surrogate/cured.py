"""Neural-operator surrogate of a 2-D advection-diffusion problem, trained with Accelerate.

    python train.py --epochs 5
"""
import argparse
import json
import logging
import os
import time

import numpy as np
import torch
import torch.nn as nn
from accelerate import Accelerator
from torch.utils.data import DataLoader, Dataset

log = logging.getLogger("surrogate")


def initial_fields(count, size, seed):
    """Random smooth start temperatures, diffusivity and a constant drift for every sample."""
    rng = np.random.default_rng(seed)
    k = np.fft.fftfreq(size) * size
    k2 = k[:, None] ** 2 + k[None] ** 2
    start = np.fft.ifft2(np.fft.fft2(rng.normal(size=(count, size, size))) / (1 + k2) ** 0.9).real
    start /= start.std(axis=(1, 2), keepdims=True)
    return start.astype(np.float32), rng.uniform(0.05, 0.2, count), rng.uniform(-0.2, 0.2, (count, 2))


def solve(field, nu, drift, steps):
    """Explicit upwind scheme for advection and diffusion with periodic borders."""
    u = field.copy()
    for _ in range(steps):
        north, south = np.roll(u, 1, 0), np.roll(u, -1, 0)
        west, east = np.roll(u, 1, 1), np.roll(u, -1, 1)
        flux = drift[0] * (u - north if drift[0] > 0 else south - u)
        flux += drift[1] * (u - west if drift[1] > 0 else east - u)
        u = u + nu * (north + south + west + east - 4 * u) - flux
    return u


class HeatPairs(Dataset):
    def __init__(self, count, size, seed, steps=24):
        self.start, self.nu, self.drift = initial_fields(count, size, seed)
        self.end = [solve(s, n, d, steps) for s, n, d in zip(self.start, self.nu, self.drift)]

    def __len__(self):
        return len(self.start)

    def __getitem__(self, i):
        start, nu, drift = self.start[i], self.nu[i], self.drift[i]
        end = self.end[i]
        x = np.empty((4,) + start.shape, dtype=np.float32)
        x[0], x[1], x[2], x[3] = start, 5 * nu, 5 * drift[0], 5 * drift[1]
        return torch.from_numpy(x), torch.from_numpy(end[None].astype(np.float32))


class SpectralConv(nn.Module):
    def __init__(self, width, modes):
        super().__init__()
        self.modes = modes
        shape = (2, width, width, modes, modes, 2)
        self.weight = nn.Parameter(torch.randn(shape) / width)

    def forward(self, x):
        m = self.modes
        f = torch.fft.rfft2(x)
        w = torch.view_as_complex(self.weight)
        out = torch.zeros_like(f)
        out[:, :, :m, :m] = torch.einsum("bixy,ioxy->boxy", f[:, :, :m, :m], w[0])
        out[:, :, -m:, :m] = torch.einsum("bixy,ioxy->boxy", f[:, :, -m:, :m], w[1])
        return torch.fft.irfft2(out, s=x.shape[-2:])


class Operator(nn.Module):
    def __init__(self, width, modes, layers):
        super().__init__()
        self.lift = nn.Conv2d(4, width, 1)
        self.spectral = nn.ModuleList(SpectralConv(width, modes) for _ in range(layers))
        self.local = nn.ModuleList(nn.Conv2d(width, width, 1) for _ in range(layers))
        self.proj = nn.Sequential(nn.Conv2d(width, 2 * width, 1), nn.GELU(), nn.Conv2d(2 * width, 1, 1))

    def forward(self, x):
        h = self.lift(x)
        for spectral, local in zip(self.spectral, self.local):
            h = nn.functional.gelu(spectral(h) + local(h))
        return self.proj(h)


def relative_error(pred, target):
    return ((pred - target).flatten(1).norm(dim=1) / target.flatten(1).norm(dim=1)).mean()


class Monitor:
    """Per-parameter statistics of weights and gradients for the training dashboard."""

    def __init__(self, path, bins):
        self.file = open(path, "w")
        self.bins = bins

    def record(self, step, model):
        row = {"step": step}
        for name, w in model.named_parameters():
            for kind, value in (("weight", w.detach()), ("grad", w.grad)):
                flat = value.numpy().ravel()
                counts, edges = np.histogram(flat, bins=self.bins)
                row[f"{kind}/{name}"] = {"counts": counts.tolist(), "edges": edges.tolist(),
                                         "quantiles": np.quantile(flat, [0.01, 0.5, 0.99]).tolist(),
                                         "norm": value.norm().item()}
        self.file.write(json.dumps(row) + "\n")


@torch.no_grad()
def validate(model, loader, accelerator):
    model.eval()
    errors = []
    for x, y in loader:
        pred, target = accelerator.gather_for_metrics((model(x), y))
        errors.append(relative_error(pred, target))
    model.train()
    return torch.stack(errors).mean().item()


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--samples", type=int, default=800)
    p.add_argument("--size", type=int, default=32)
    p.add_argument("--epochs", type=int, default=5)
    p.add_argument("--batch-size", type=int, default=16)
    p.add_argument("--width", type=int, default=24)
    p.add_argument("--modes", type=int, default=8)
    p.add_argument("--layers", type=int, default=4)
    p.add_argument("--lr", type=float, default=2e-3)
    p.add_argument("--log-every", type=int, default=50)
    p.add_argument("--bins", type=int, default=64)
    p.add_argument("--out", default="runs")
    p.add_argument("--seed", type=int, default=0)
    args = p.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    torch.manual_seed(args.seed)
    torch.set_num_threads(2)
    os.makedirs(args.out, exist_ok=True)

    accelerator = Accelerator(cpu=True)
    train = DataLoader(HeatPairs(args.samples, args.size, args.seed), batch_size=args.batch_size,
                       shuffle=True, drop_last=True)
    valid = DataLoader(HeatPairs(160, args.size, args.seed + 1), batch_size=32)
    model = Operator(args.width, args.modes, args.layers)
    opt = torch.optim.Adam(model.parameters(), lr=args.lr)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, args.epochs * len(train))
    model, opt, train, valid, sched = accelerator.prepare(model, opt, train, valid, sched)
    monitor = Monitor(os.path.join(args.out, "monitor.jsonl"), args.bins)
    log.info("%d parameters, %d steps per epoch", sum(w.numel() for w in model.parameters()), len(train))

    step, started, running = 0, time.time(), torch.zeros(())
    for epoch in range(args.epochs):
        for x, y in train:
            loss = relative_error(model(x), y)
            opt.zero_grad()
            accelerator.backward(loss)
            opt.step()
            sched.step()
            running += loss.detach()
            step += 1
            if step % args.log_every == 0:
                monitor.record(step, accelerator.unwrap_model(model))
                log.info("step %d loss %.4f (%.1f samples/s)", step, running.item() / args.log_every,
                         step * args.batch_size / (time.time() - started))
                running.zero_()
        log.info("epoch %d valid error %.4f", epoch, validate(model, valid, accelerator))
    accelerator.save(accelerator.unwrap_model(model).state_dict(), os.path.join(args.out, "model.pt"))


if __name__ == "__main__":
    main()
