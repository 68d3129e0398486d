"""Nowcasting weekly influenza admissions per district and age band.

    torchrun --standalone --nproc-per-node 2 train.py
"""
import argparse
import os
import tempfile
import time

import numpy as np
import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset, DistributedSampler

AGES = 16
WINDOW = 26


def simulate_surveillance(n_series, n_weeks, n_districts, seed):
    """Noisy two-wave curves by age band for the sentinel districts."""
    rng = np.random.default_rng(seed)
    weeks = np.arange(n_weeks)[None, :, None]
    peak = rng.uniform(15, n_weeks - 15, size=(n_series, 1, 1))
    width = rng.uniform(3, 9, size=(n_series, 1, 1))
    profile = rng.gamma(2.0, 1.0, size=(n_series, 1, AGES))
    wave = np.exp(-0.5 * ((weeks - peak) / width) ** 2)
    second = 0.5 * np.exp(-0.5 * ((weeks - peak - 14) / width) ** 2)
    counts = rng.poisson(30 * profile * (wave + second) + 0.3)
    district = rng.integers(0, n_districts, size=n_series)
    return counts.astype(np.float32), district


def build_contact_matrices(n_districts, seed):
    """POLYMOD-like mixing matrices, projected on each district's age pyramid."""
    rng = np.random.default_rng(seed)
    age = np.arange(AGES)
    base = np.exp(-np.abs(age[:, None] - age[None, :]) / 2.5)
    base += 0.4 * np.exp(-np.abs(np.abs(age[:, None] - age[None, :]) - 6) / 1.5)
    pyramid = rng.dirichlet(np.full(AGES, 8.0), size=n_districts).astype(np.float32)
    mixing = base.astype(np.float32)[None] * pyramid[:, None, :] * AGES
    return torch.from_numpy(mixing / mixing.sum(-1, keepdims=True))


class AdmissionWindows(Dataset):
    def __init__(self, path, horizon=2, stride=3):
        with np.load(path) as z:
            self.counts = torch.from_numpy(np.log1p(z["counts"]))
            self.district = torch.from_numpy(z["district"])
        last = self.counts.shape[1] - WINDOW - horizon
        self.index = [(s, t) for s in range(len(self.counts)) for t in range(0, last, stride)]
        self.horizon = horizon

    def __len__(self):
        return len(self.index)

    def __getitem__(self, i):
        s, t = self.index[i]
        x = self.counts[s, t:t + WINDOW]
        y = self.counts[s, t + WINDOW + self.horizon - 1]
        return x, self.district[s], y


class ForceOfInfection(nn.Module):
    """Mixes the age bands of a window with the contact matrix of its district."""

    def __init__(self, contact):
        super().__init__()
        self.register_buffer("contact", contact)
        self.scale = nn.Parameter(torch.ones(AGES))

    def forward(self, x, district):
        mixing = self.contact[district]
        return torch.einsum("bij,btj->bti", mixing, x) * self.scale


class Nowcaster(nn.Module):
    def __init__(self, contact, hidden=96):
        super().__init__()
        self.foi = ForceOfInfection(contact)
        self.encode = nn.Sequential(nn.Linear(2 * AGES, hidden), nn.GELU(), nn.LayerNorm(hidden))
        self.rnn = nn.GRU(hidden, hidden, num_layers=2, batch_first=True)
        self.head = nn.Sequential(nn.Linear(hidden, hidden), nn.GELU(), nn.Linear(hidden, 2 * AGES))

    def forward(self, x, district):
        pressure = self.foi(x, district)
        h, _ = self.rnn(self.encode(torch.cat([x, pressure], dim=-1)))
        mean, log_var = self.head(h[:, -1]).chunk(2, dim=-1)
        return x[:, -1] + mean, log_var.clamp(-6, 4)


def gaussian_nll(mean, log_var, target):
    return 0.5 * (log_var + (target - mean) ** 2 / log_var.exp()).mean()


@torch.no_grad()
def validate(model, loader):
    model.eval()
    total = torch.zeros(2)
    for x, district, y in loader:
        mean, _ = model(x, district)
        total += torch.tensor([(mean - y).abs().mean(-1).sum().item(), float(len(y))])
    dist.all_reduce(total)
    model.train()
    return (total[0] / total[1]).item()


def parse_args():
    p = argparse.ArgumentParser()
    p.add_argument("--max-steps", type=int, default=900)
    p.add_argument("--batch-size", type=int, default=64)
    p.add_argument("--lr", type=float, default=1e-3)
    p.add_argument("--districts", type=int, default=32844)
    p.add_argument("--val-every", type=int, default=300)
    p.add_argument("--log-every", type=int, default=20)
    return p.parse_args()


def main():
    args = parse_args()
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(3)

    box = [tempfile.mkdtemp(prefix="nowcast_") if rank == 0 else None]
    dist.broadcast_object_list(box)
    work = box[0]
    if rank == 0:
        for name, n, seed in (("train", 1200, 1), ("valid", 60, 2)):
            counts, district = simulate_surveillance(n, 104, args.districts, seed)
            np.savez(f"{work}/{name}.npz", counts=counts, district=district)
    dist.barrier()

    train_set = AdmissionWindows(f"{work}/train.npz")
    valid_set = AdmissionWindows(f"{work}/valid.npz", stride=8)
    sampler = DistributedSampler(train_set, shuffle=True, drop_last=True)
    loader = DataLoader(train_set, batch_size=args.batch_size, sampler=sampler, drop_last=True)
    valid_loader = DataLoader(
        valid_set, batch_size=128, sampler=DistributedSampler(valid_set, shuffle=False)
    )

    model = DDP(Nowcaster(build_contact_matrices(args.districts, seed=9)), broadcast_buffers=False)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=1e-4)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, max_lr=args.lr, total_steps=args.max_steps)

    step, epoch, best = 0, 0, float("inf")
    running = 0.0
    start = time.perf_counter()
    while step < args.max_steps:
        sampler.set_epoch(epoch)
        for x, district, y in loader:
            mean, log_var = model(x, district)
            loss = gaussian_nll(mean, log_var, y)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            running += loss.item()
            step += 1
            if step % args.log_every == 0 and rank == 0:
                print(f"epoch {epoch} step {step} nll {running / args.log_every:.4f} "
                      f"lr {schedule.get_last_lr()[0]:.2e}", flush=True)
            if step % args.log_every == 0:
                running = 0.0
            if step % args.val_every == 0 or step == args.max_steps:
                mae = validate(model.module, valid_loader)
                if rank == 0:
                    print(f"  valid log-count MAE {mae:.4f}", flush=True)
                    if mae < best:
                        best = mae
                        torch.save(model.module.state_dict(), os.path.join(work, "best.pt"))
            if step >= args.max_steps:
                break
        epoch += 1

    if rank == 0:
        print(f"done, {step} steps on {world} ranks in {time.perf_counter() - start:.1f} s, best MAE {best:.4f}")
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
