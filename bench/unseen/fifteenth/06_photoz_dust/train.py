"""Photometric redshifts for a five-band survey, corrected with a three-dimensional dust map.

    torchrun --nproc-per-node 2 train.py --epochs 4
"""
import argparse
import json
import math
import os
import tempfile
import time

import numpy as np
import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset, DistributedSampler

BANDS = ("u", "g", "r", "i", "z")
EXTINCTION = (4.239, 3.303, 2.285, 1.698, 1.263)


def build_dust_map(path, n_lat=1024, n_lon=2048, n_dist=6, seed=11):
    rng = np.random.default_rng(seed)
    lat = np.linspace(-90, 90, n_lat, dtype=np.float32)
    disc = np.exp(-np.abs(lat) / 12.0)[:, None]
    cube = np.empty((n_lat, n_lon, n_dist), dtype=np.float32)
    total = np.zeros((n_lat, n_lon), dtype=np.float32)
    for d in range(n_dist):
        clumps = rng.gamma(2.0, 0.5, size=(n_lat // 16, n_lon // 16)).astype(np.float32)
        clumps = np.kron(clumps, np.ones((16, 16), dtype=np.float32))
        total += disc * clumps * 0.12
        cube[:, :, d] = total
    tmp = f"{path}.{os.getpid()}"
    with open(tmp, "wb") as f:
        np.save(f, cube)
    os.replace(tmp, path)


class DustMap(nn.Module):
    """E(B-V) along the line of sight, one value per distance bin."""

    def __init__(self, path):
        super().__init__()
        cube = torch.from_numpy(np.load(path))
        self.n_lat, self.n_lon, self.n_dist = cube.shape
        self.register_buffer("cube", cube.reshape(-1, self.n_dist), persistent=False)
        self.register_buffer("coeff", torch.tensor(EXTINCTION))

    def forward(self, lon, lat):
        row = ((lat + 90.0) / 180.0 * (self.n_lat - 1)).round().long()
        col = (lon / 360.0 * self.n_lon).long() % self.n_lon
        ebv = self.cube[row * self.n_lon + col]
        return ebv, ebv[:, -1:] * self.coeff


class Block(nn.Module):
    def __init__(self, dim, hidden, dropout):
        super().__init__()
        self.norm = nn.LayerNorm(dim)
        self.up = nn.Linear(dim, 2 * hidden)
        self.down = nn.Linear(hidden, dim)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        a, b = self.up(self.norm(x)).chunk(2, dim=-1)
        return x + self.down(self.dropout(F.silu(a) * b))


class PhotoZ(nn.Module):
    def __init__(self, dust, dim=256, hidden=320, depth=5, components=5, dropout=0.05):
        super().__init__()
        self.dust = dust
        n_in = len(BANDS) * 2 + len(BANDS) - 1 + dust.n_dist
        self.stem = nn.Linear(n_in, dim)
        self.blocks = nn.ModuleList(Block(dim, hidden, dropout) for _ in range(depth))
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, 3 * components)

    def forward(self, batch):
        ebv, a_band = self.dust(batch["lon"], batch["lat"])
        mag = batch["mag"] - a_band
        colour = mag[:, 1:] - mag[:, :-1]
        x = torch.cat([(mag - 21.0) / 2.0, batch["err"] * 10.0, colour, ebv], dim=-1)
        x = self.stem(x)
        for block in self.blocks:
            x = block(x)
        logit, mu, log_sigma = self.head(self.norm(x)).chunk(3, dim=-1)
        return logit, F.softplus(mu), log_sigma.clamp(-5.0, 1.0)


def mixture_nll(out, z):
    logit, mu, log_sigma = out
    t = (z[:, None] - mu) * torch.exp(-log_sigma)
    logp = -0.5 * t.square() - log_sigma - 0.5 * math.log(2 * math.pi)
    return -torch.logsumexp(F.log_softmax(logit, -1) + logp, dim=-1).mean()


class Survey(Dataset):
    def __init__(self, n, dust, seed):
        rng = np.random.default_rng(seed)
        z = rng.gamma(2.5, 0.3, size=n).astype(np.float32)
        kind = rng.uniform(0, 1, size=n).astype(np.float32)
        base = rng.normal(20.5, 1.0, size=n) + 1.5 * np.log1p(z)
        wave = np.array([0.36, 0.48, 0.62, 0.76, 0.91])
        rest = wave[None] / (1 + z[:, None])
        sed = 1.2 * kind[:, None] / (1 + np.exp((rest - 0.4) * 25)) + 0.5 * np.exp(-((rest - 0.37) / 0.04) ** 2)
        lon = rng.uniform(0, 360, n).astype(np.float32)
        lat = np.degrees(np.arcsin(rng.uniform(-1, 1, n))).astype(np.float32)
        with torch.no_grad():
            _, a_band = dust(torch.from_numpy(lon), torch.from_numpy(lat))
        err = 0.02 + 0.02 * rng.gamma(1.0, 1.0, size=(n, len(BANDS)))
        mag = base[:, None] + sed + a_band.numpy() + err * rng.normal(size=err.shape)
        self.z, self.lon, self.lat = map(torch.from_numpy, (z, lon, lat))
        self.mag = torch.from_numpy(mag.astype(np.float32))
        self.err = torch.from_numpy(err.astype(np.float32))

    def __len__(self):
        return len(self.z)

    def __getitems__(self, idx):
        idx = torch.as_tensor(idx)
        return {k: getattr(self, k)[idx] for k in ("mag", "err", "lon", "lat", "z")}


@torch.no_grad()
def evaluate(model, loader):
    model.eval()
    acc = torch.zeros(3)
    for batch in loader:
        out = model(batch)
        weight = out[0].softmax(-1)
        dz = ((weight * out[1]).sum(-1) - batch["z"]) / (1 + batch["z"])
        acc += torch.tensor([mixture_nll(out, batch["z"]) * len(dz), (dz.abs() > 0.15).sum(), len(dz)])
    dist.all_reduce(acc)
    model.train()
    return (acc[0] / acc[2]).item(), (acc[1] / acc[2]).item()


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int, default=4)
    p.add_argument("--objects", type=int, default=49152)
    p.add_argument("--batch-size", type=int, default=256, help="per rank")
    p.add_argument("--lr", type=float, default=1e-3)
    p.add_argument("--workdir", default=os.path.join(tempfile.gettempdir(), "photoz"))
    args = p.parse_args()

    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    os.makedirs(args.workdir, exist_ok=True)
    dust_path = os.path.join(args.workdir, "dust3d.npy")
    if rank == 0 and not os.path.exists(dust_path):
        build_dust_map(dust_path)
    dist.barrier()

    dust = DustMap(dust_path)
    train_set = Survey(args.objects, dust, seed=1)
    val_set = Survey(args.objects // 8, dust, seed=2)
    sampler = DistributedSampler(train_set, shuffle=True, drop_last=True)
    loader = DataLoader(train_set, args.batch_size, sampler=sampler, drop_last=True, collate_fn=lambda b: b)
    val_loader = DataLoader(val_set, 2048, sampler=DistributedSampler(val_set, shuffle=False), collate_fn=lambda b: b)

    model = DDP(PhotoZ(dust), gradient_as_bucket_view=True)
    opt = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=1e-2, fused=True)
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, args.lr, total_steps=args.epochs * len(loader))

    step, best = 0, float("inf")
    for epoch in range(args.epochs):
        sampler.set_epoch(epoch)
        t0, running = time.time(), torch.zeros(())
        for batch in loader:
            loss = mixture_nll(model(batch), batch["z"])
            opt.zero_grad(set_to_none=True)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            opt.step()
            sched.step()
            running += loss.detach()
            step += 1
        nll, outliers = evaluate(model.module, val_loader)
        if rank == 0:
            print(json.dumps({"epoch": epoch, "step": step, "train": round(running.item() / len(loader), 4),
                              "val_nll": round(nll, 4), "outliers": round(outliers, 4),
                              "seconds": round(time.time() - t0, 1)}), flush=True)
            if nll < best:
                best = nll
                torch.save(model.module.state_dict(), os.path.join(args.workdir, "best.pt"))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
