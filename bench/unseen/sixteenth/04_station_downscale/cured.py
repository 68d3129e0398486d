"""Air temperature at mountain stations from coarse forecasts and the relief around the station.

    torchrun --nproc_per_node 2 train.py
"""
import argparse
import csv
import os
import time

import numpy as np
import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler


def get_args():
    p = argparse.ArgumentParser(description=__doc__)
    p.add_argument("--rows", type=int, default=3000)
    p.add_argument("--cols", type=int, default=4000)
    p.add_argument("--stations", type=int, default=900)
    p.add_argument("--samples", type=int, default=40000)
    p.add_argument("--patch", type=int, default=24)
    p.add_argument("--batch-size", type=int, default=48, help="per rank")
    p.add_argument("--steps", type=int, default=300)
    p.add_argument("--eval-every", type=int, default=150)
    p.add_argument("--lr", type=float, default=1e-3)
    p.add_argument("--seed", type=int, default=5)
    p.add_argument("--out", default="runs_stations")
    return p.parse_args()


def make_relief(rows, cols, seed):
    """Layers (height in km, slope to the north, slope to the east, forest) of a fractal relief."""
    gen = torch.Generator().manual_seed(seed)
    relief = torch.zeros(1, 1, rows, cols)
    for cells, height in ((6, 1.2), (24, 0.6), (96, 0.25), (384, 0.08)):
        noise = torch.randn(1, 1, cells, cells * cols // rows, generator=gen)
        relief += height * F.interpolate(noise, size=(rows, cols), mode="bilinear", align_corners=False)
    height = (relief[0, 0] + 1.0).clamp_(min=0.0)
    layers = torch.zeros(4, rows, cols)
    layers[0] = height
    layers[1, 1:-1] = 10 * (height[:-2] - height[2:])
    layers[2, :, 1:-1] = 10 * (height[:, 2:] - height[:, :-2])
    layers[3] = (height < 1.8).float()
    return layers


class StationDays(Dataset):
    """One item is a station and a day: forecast variables, row and column of the station, observed anomaly."""

    def __init__(self, relief, stations, samples, patch, seed):
        rng = np.random.default_rng(seed)
        rows, cols = relief.shape[1:]
        at = np.stack([rng.integers(patch, rows - patch, stations), rng.integers(patch, cols - patch, stations)], 1)
        who = rng.integers(0, stations, samples)
        self.where = torch.from_numpy(at[who])
        self.forecast = torch.from_numpy(rng.standard_normal((samples, 8)).astype(np.float32))
        centre = relief[0][self.where[:, 0], self.where[:, 1]]
        north = relief[1][self.where[:, 0], self.where[:, 1]]
        inversion = torch.sigmoid(2 * self.forecast[:, 1])
        self.target = (self.forecast[:, 0] - 6.5 * centre * (1 - inversion) + 4.0 * north * self.forecast[:, 2]
                       + 0.3 * torch.from_numpy(rng.standard_normal(samples).astype(np.float32)))

    def __len__(self):
        return len(self.target)

    def __getitem__(self, i):
        return self.forecast[i], self.where[i], self.target[i]


class Downscaler(nn.Module):
    def __init__(self, relief, patch, n_forecast=8, width=32):
        super().__init__()
        self.register_buffer("relief", relief, persistent=False)
        span = torch.arange(patch) - patch // 2
        self.register_buffer("span", span, persistent=False)
        self.encoder = nn.Sequential(
            nn.Conv2d(5, width, 3, padding=1), nn.GroupNorm(4, width), nn.SiLU(),
            nn.Conv2d(width, width, 3, padding=1, stride=2), nn.GroupNorm(4, width), nn.SiLU(),
            nn.Conv2d(width, 2 * width, 3, padding=1), nn.GroupNorm(8, 2 * width), nn.SiLU(),
            nn.Conv2d(2 * width, 2 * width, 3, padding=1, stride=2), nn.SiLU(), nn.Flatten())
        side = (patch + 3) // 4
        self.weather = nn.Sequential(nn.Linear(n_forecast, 64), nn.SiLU(), nn.Linear(64, 64))
        self.head = nn.Sequential(nn.Linear(2 * width * side * side + 64, 128), nn.SiLU(), nn.Linear(128, 1))

    def surroundings(self, where):
        r = where[:, 0, None, None] + self.span[None, :, None]
        c = where[:, 1, None, None] + self.span[None, None, :]
        patch = self.relief[:, r, c].transpose(0, 1)
        here = self.relief[0][where[:, 0], where[:, 1]]
        relative = patch[:, :1] - here[:, None, None, None]
        return torch.cat([patch, relative], dim=1)

    def forward(self, forecast, where):
        z = torch.cat([self.encoder(self.surroundings(where)), self.weather(forecast)], dim=1)
        return self.head(z).squeeze(1)


@torch.no_grad()
def evaluate(model, loader):
    model.eval()
    err = torch.zeros(2)
    for forecast, where, target in loader:
        err[0] += F.mse_loss(model(forecast, where), target, reduction="sum")
        err[1] += len(target)
    dist.all_reduce(err)
    model.train()
    return (err[0] / err[1]).sqrt().item()


def main():
    args = get_args()
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(args.seed)

    relief = make_relief(args.rows, args.cols, args.seed)
    train_set = StationDays(relief, args.stations, args.samples, args.patch, args.seed)
    val_set = StationDays(relief, args.stations // 4, 2048, args.patch, args.seed + 1)
    sampler = DistributedSampler(train_set, world, rank, shuffle=True, seed=args.seed, drop_last=True)
    train_loader = DataLoader(train_set, args.batch_size, sampler=sampler, drop_last=True)
    val_loader = DataLoader(val_set, 256, sampler=DistributedSampler(val_set, world, rank, shuffle=False))

    model = DistributedDataParallel(Downscaler(relief, args.patch), gradient_as_bucket_view=True, broadcast_buffers=False)
    opt = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=1e-4)
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, max_lr=args.lr, total_steps=args.steps)

    writer = None
    if rank == 0:
        os.makedirs(args.out, exist_ok=True)
        file = open(os.path.join(args.out, "log.csv"), "w", newline="")
        writer = csv.writer(file)
        writer.writerow(["step", "loss", "val_rmse"])

    step, epoch, best = 0, 0, float("inf")
    total = torch.zeros(())
    started = time.time()
    while step < args.steps:
        sampler.set_epoch(epoch)
        for forecast, where, target in train_loader:
            loss = F.smooth_l1_loss(model(forecast, where), target)
            opt.zero_grad(set_to_none=True)
            loss.backward()
            opt.step()
            sched.step()
            total += loss.detach()
            step += 1

            if step % 25 == 0:
                mean = total.item() / 25
                total.zero_()
                if rank == 0:
                    writer.writerow([step, f"{mean:.5f}", ""])
                    print(f"step {step:4d}  loss {mean:.5f}  {time.time() - started:.1f} s", flush=True)

            if step % args.eval_every == 0:
                rmse = evaluate(model.module, val_loader)
                if rank == 0:
                    writer.writerow([step, "", f"{rmse:.4f}"])
                    print(f"step {step:4d}  val rmse {rmse:.4f} K", flush=True)
                    if rmse < best:
                        torch.save(model.module.state_dict(), os.path.join(args.out, "best.pt"))
                best = min(best, rmse)

            if step >= args.steps:
                break
        epoch += 1

    if rank == 0:
        file.close()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
