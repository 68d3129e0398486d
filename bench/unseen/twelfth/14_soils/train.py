"""Soil properties from infrared spectra: one encoder, one head per laboratory; DDP with gloo.

torchrun --nproc_per_node=2 train.py
"""
import argparse
import contextlib
import os
import tempfile
import time

import numpy as np
import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset
from torch.utils.data.distributed import DistributedSampler

BANDS, PATCH = 640, 20
LABS = {"pH": 1, "texture": 3, "carbon": 2, "nutrients": 5, "metals": 4}


class Spectra(Dataset):
    """Spectra of one laboratory with the properties that it measured."""

    def __init__(self, lab, n):
        rng = np.random.default_rng(list(LABS).index(lab))
        k = 12
        centre, width = np.random.default_rng(99).uniform(0, 1, k), np.random.default_rng(98).uniform(0.01, 0.1, k)
        w = np.linspace(0, 1, BANDS)
        peaks = np.exp(-((w - centre[:, None]) / width[:, None]) ** 2)
        amount = rng.gamma(2.0, 0.5, (n, k))
        noise = rng.standard_normal((n, BANDS), dtype=np.float32) * 0.03
        self.x = torch.from_numpy((amount @ peaks).astype(np.float32) + noise)
        y = np.log1p(amount) @ rng.normal(0, 1, (k, LABS[lab]))
        self.y = torch.from_numpy(((y - y.mean(0)) / y.std(0)).astype(np.float32))

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return self.x[i], self.y[i]


class SoilNet(nn.Module):
    def __init__(self, dim=96, layers=3):
        super().__init__()
        self.embed = nn.Linear(PATCH, dim)
        self.position = nn.Parameter(torch.randn(BANDS // PATCH, dim) * 0.02)
        layer = nn.TransformerEncoderLayer(dim, 4, 4 * dim, dropout=0.0, activation="gelu",
                                           batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.heads = nn.ModuleDict({
            lab: nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, 64), nn.GELU(), nn.Linear(64, n))
            for lab, n in LABS.items()
        })

    def forward(self, x, lab):
        z = self.embed(x.view(len(x), -1, PATCH)) + self.position
        return self.heads[lab](self.encoder(z).mean(1))


def endless(loader, sampler):
    epoch = 0
    while True:
        sampler.set_epoch(epoch)
        yield from loader
        epoch += 1


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=300)
    ap.add_argument("--batch", type=int, default=48)
    ap.add_argument("--accumulate", type=int, default=2)
    args = ap.parse_args()

    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)

    batches = {}
    for lab in LABS:
        data = Spectra(lab, 3000)
        sampler = DistributedSampler(data, shuffle=True, drop_last=True)
        batches[lab] = endless(DataLoader(data, batch_size=args.batch, sampler=sampler, drop_last=True), sampler)

    # every step trains one laboratory's head, so the others have no gradient
    model = DDP(SoilNet(), find_unused_parameters=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.01, fused=True)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, args.steps)
    order = np.random.default_rng(17)  # the same on all ranks
    names = list(LABS)

    folder = tempfile.mkdtemp() if rank == 0 else None
    seen, total = {lab: 0 for lab in LABS}, {lab: 0.0 for lab in LABS}
    start = time.perf_counter()
    for step in range(1, args.steps + 1):
        lab = names[order.integers(len(names))]
        optimizer.zero_grad()
        step_loss = 0.0
        for micro in range(args.accumulate):
            x, y = next(batches[lab])
            last = micro == args.accumulate - 1
            with contextlib.nullcontext() if last else model.no_sync():
                loss = F.mse_loss(model(x, lab), y) / args.accumulate
                loss.backward()
            step_loss += loss.item()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()

        mean = torch.tensor([step_loss])
        dist.all_reduce(mean)
        seen[lab] += 1
        total[lab] += mean.item() / world
        if rank == 0 and step % 20 == 0:
            text = " ".join(f"{k} {total[k] / max(seen[k], 1):.3f}" for k in names)
            print(f"step {step:4d} {text} {time.perf_counter() - start:.1f}s", flush=True)
        if step % 100 == 0:
            dist.barrier()
            if rank == 0:
                torch.save({"model": model.module.state_dict(), "step": step}, os.path.join(folder, "last.pt"))
            dist.barrier()

    if rank == 0:
        print(f"done: {(time.perf_counter() - start) / args.steps * 1e3:.1f} ms per step")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
