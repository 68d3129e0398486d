"""Instance discrimination on single heartbeats: an encoder is trained to tell a beat from
all others by a memory bank that holds one feature per beat in the collection.

    torchrun --nproc_per_node 2 train.py
"""
import argparse
import os
import tempfile
import time

import numpy as np
import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import BatchSampler, DataLoader, Dataset, DistributedSampler

KINDS = 5


def synth_beats(n, length, seed):
    """P, QRS and T waves as bumps; five kinds of beat differ in their widths, heights and delays."""
    rng = np.random.default_rng(seed)
    t = np.linspace(0, 1, length, dtype=np.float32)
    kind = rng.integers(0, KINDS, n)
    shape = np.random.default_rng(7)
    height = shape.normal([0.2, -0.2, 1.2, -0.3, 0.4], 0.25, (KINDS, 5)).astype(np.float32)
    centre = shape.normal([0.2, 0.36, 0.4, 0.45, 0.7], 0.02, (KINDS, 5)).astype(np.float32)
    width = np.abs(shape.normal([0.04, 0.015, 0.02, 0.02, 0.07], 0.006, (KINDS, 5))).astype(np.float32) + 0.008
    out = np.empty((n, length), dtype=np.int16)
    for lo in range(0, n, 8192):
        k = kind[lo:lo + 8192]
        wave = rng.standard_normal((len(k), length), dtype=np.float32) * 0.03
        for j in range(5):
            c = centre[k, j] + rng.normal(0, 0.01, len(k)).astype(np.float32)
            h = height[k, j] * rng.uniform(0.8, 1.2, len(k)).astype(np.float32)
            z = (t[None] - c[:, None]) / width[k, j][:, None]
            wave += h[:, None] * np.exp(-0.5 * z * z)
        out[lo:lo + 8192] = wave * 2000
    return out, kind


class Beats(Dataset):
    """Indexed with a whole list of beats at once; returns two augmented views of them."""

    def __init__(self, adc, seed):
        self.adc = torch.from_numpy(adc)
        self.gen = torch.Generator().manual_seed(seed)

    def __len__(self):
        return len(self.adc)

    def __getitem__(self, index):
        index = torch.as_tensor(index)
        x = self.adc[index].float() / 2000
        return index, self.view(x), self.view(x)

    def view(self, x):
        n, length = x.shape
        gain = 0.7 + 0.6 * torch.rand(n, 1, generator=self.gen)
        drift = torch.randn(n, 1, generator=self.gen) * torch.linspace(-0.1, 0.1, length)
        return (x * gain + drift + 0.05 * torch.randn(n, length, generator=self.gen)).unsqueeze(1)


class ResBlock(nn.Module):
    def __init__(self, cin, cout, stride):
        super().__init__()
        self.body = nn.Sequential(nn.Conv1d(cin, cout, 7, stride, 3), nn.GroupNorm(8, cout), nn.ReLU(),
                                  nn.Conv1d(cout, cout, 7, 1, 3), nn.GroupNorm(8, cout))
        self.skip = nn.Conv1d(cin, cout, 1, stride)

    def forward(self, x):
        return F.relu(self.body(x) + self.skip(x))


class BankModel(nn.Module):
    def __init__(self, n_items, dim, width, negatives, temperature, momentum):
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Conv1d(1, width, 9, 2, 4), nn.GroupNorm(8, width), nn.ReLU(),
            ResBlock(width, width, 1), ResBlock(width, 2 * width, 2), ResBlock(2 * width, 4 * width, 2),
            nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(4 * width, dim))
        self.negatives, self.temperature, self.momentum = negatives, temperature, momentum
        self.register_buffer("bank", F.normalize(torch.randn(n_items, dim), dim=1))

    def forward(self, view, twin):
        z = F.normalize(self.encoder(view), dim=1)
        with torch.no_grad():
            key = F.normalize(self.encoder(twin), dim=1)
        other = torch.randint(len(self.bank), (self.negatives,))
        pos = (z * key).sum(1, keepdim=True)
        neg = z @ self.bank[other].t()
        logits = torch.cat([pos, neg], 1) / self.temperature
        loss = F.cross_entropy(logits, torch.zeros(len(z), dtype=torch.long))
        return loss, key

    @torch.no_grad()
    def remember(self, index, z):
        self.bank[index] = F.normalize(self.momentum * self.bank[index] + (1 - self.momentum) * z, dim=1)


def gather(t):
    parts = [torch.empty_like(t) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, t)
    return torch.cat(parts)


@torch.no_grad()
def neighbour_accuracy(model, data, kind, count, k=15):
    model.eval()
    rows = torch.linspace(0, len(data) - 1, count).long()
    z = F.normalize(model.encoder((data.adc[rows].float() / 2000).unsqueeze(1)), dim=1)
    sim = (z @ z.t()).fill_diagonal_(-1)
    vote = kind[rows[sim.topk(k, 1).indices]].mode(1).values
    model.train()
    return (vote == kind[rows]).float().mean().item()


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--beats", type=int, default=160000)
    p.add_argument("--length", type=int, default=160)
    p.add_argument("--dim", type=int, default=128)
    p.add_argument("--width", type=int, default=16)
    p.add_argument("--negatives", type=int, default=2048)
    p.add_argument("--temperature", type=float, default=0.1)
    p.add_argument("--momentum", type=float, default=0.5)
    p.add_argument("--batch-size", type=int, default=64, help="per rank")
    p.add_argument("--steps", type=int, default=500)
    p.add_argument("--lr", type=float, default=0.03)
    p.add_argument("--eval-every", type=int, default=250)
    p.add_argument("--log-every", type=int, default=25)
    p.add_argument("--seed", type=int, default=3)
    p.add_argument("--out", default=os.path.join(tempfile.gettempdir(), "heartbeat_encoder.pt"))
    args = p.parse_args()

    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    adc, kind = synth_beats(args.beats, args.length, args.seed)
    kind = torch.from_numpy(kind)
    data = Beats(adc, seed=100 + rank)
    sampler = DistributedSampler(data, world, rank, shuffle=True, seed=args.seed, drop_last=True)
    loader = DataLoader(data, batch_size=None, sampler=BatchSampler(sampler, args.batch_size, drop_last=True))

    torch.manual_seed(args.seed)
    model = BankModel(args.beats, args.dim, args.width, args.negatives, args.temperature, args.momentum)
    ddp = DistributedDataParallel(model, forward_sync_buffers=False)
    opt = torch.optim.SGD(ddp.parameters(), lr=args.lr, momentum=0.9, weight_decay=1e-4)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, args.steps)
    torch.manual_seed(args.seed + 1 + rank)

    step, epoch, t0 = 0, 0, time.time()
    while step < args.steps:
        sampler.set_epoch(epoch)
        for index, view, twin in loader:
            loss, key = ddp(view, twin)
            opt.zero_grad(set_to_none=True)
            loss.backward()
            opt.step()
            sched.step()
            model.remember(gather(index), gather(key))
            if step % args.log_every == 0 and rank == 0:
                print(f"step {step:5d} loss {loss.item():.5f} {time.time() - t0:.1f}s", flush=True)
            step += 1
            if step % args.eval_every == 0:
                acc = neighbour_accuracy(model, data, kind, 512)
                if rank == 0:
                    print(f"step {step:5d} neighbours agree {acc:.3f}", flush=True)
            if step == args.steps:
                break
        epoch += 1
    if rank == 0:
        torch.save(model.encoder.state_dict(), args.out)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
