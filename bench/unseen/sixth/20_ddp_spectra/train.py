"""Mineral identification from Raman spectra, 1-D ResNet on two processes.

    torchrun --standalone --nproc_per_node 2 train.py
"""
import argparse
import time

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP


def make_spectra(n, length, minerals, seed):
    gen = torch.Generator().manual_seed(seed)
    axis = torch.linspace(0, 1, length)
    centres = torch.rand(minerals, 7, generator=gen)
    heights = torch.rand(minerals, 7, generator=gen) + 0.3
    peaks = torch.exp(-((axis[None, None] - centres[..., None]) / 0.008) ** 2)
    clean = (peaks * heights[..., None]).sum(1)
    y = torch.randint(minerals, (n,), generator=gen)
    baseline = torch.rand(n, 1, generator=gen) * axis + torch.rand(n, 1, generator=gen)
    x = clean[y] * (0.5 + torch.rand(n, 1, generator=gen)) + baseline
    x += 0.25 * torch.randn(n, length, generator=gen)
    return ((x - x.mean(1, keepdim=True)) / x.std(1, keepdim=True)).unsqueeze(1), y


class Block(nn.Module):
    def __init__(self, cin, cout):
        super().__init__()
        self.conv1 = nn.Conv1d(cin, cout, 7, stride=2, padding=3, bias=False)
        self.conv2 = nn.Conv1d(cout, cout, 7, padding=3, bias=False)
        self.bn1, self.bn2 = nn.BatchNorm1d(cout), nn.BatchNorm1d(cout)
        self.skip = nn.Conv1d(cin, cout, 1, stride=2, bias=False)

    def forward(self, x):
        h = F.relu(self.bn1(self.conv1(x)), inplace=True)
        return F.relu(self.bn2(self.conv2(h)) + self.skip(x), inplace=True)


class SpectraNet(nn.Module):
    def __init__(self, width, minerals):
        super().__init__()
        self.stem = nn.Conv1d(1, width, 15, stride=2, padding=7)
        self.blocks = nn.Sequential(Block(width, width), Block(width, 2 * width), Block(2 * width, 2 * width))
        self.fc = nn.Linear(2 * width, minerals)

    def forward(self, x):
        return self.fc(self.blocks(F.relu(self.stem(x))).mean(2))


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--spectra", type=int, default=4096)
    ap.add_argument("--length", type=int, default=1024)
    ap.add_argument("--minerals", type=int, default=20)
    ap.add_argument("--width", type=int, default=48)
    ap.add_argument("--batch-size", type=int, default=32)
    ap.add_argument("--epochs", type=int, default=8)
    ap.add_argument("--lr", type=float, default=2e-3)
    args = ap.parse_args()
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(6)

    x, y = make_spectra(args.spectra, args.length, args.minerals, seed=6)
    x, y = x[rank::world].contiguous(), y[rank::world].contiguous()
    model = DDP(SpectraNet(args.width, args.minerals), gradient_as_bucket_view=True,
                broadcast_buffers=False, static_graph=True)
    opt = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=1e-2, fused=True)
    gen = torch.Generator().manual_seed(100 + rank)
    steps = len(x) // args.batch_size
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, args.lr, total_steps=args.epochs * steps)
    start = time.time()
    for epoch in range(args.epochs):
        order = torch.randperm(len(x), generator=gen)[:steps * args.batch_size]
        for step, idx in enumerate(order.view(steps, args.batch_size)):
            with torch.autocast("cpu", dtype=torch.bfloat16):
                loss = F.cross_entropy(model(x[idx]), y[idx])
            opt.zero_grad(set_to_none=True)
            loss.backward()
            opt.step()
            sched.step()
            if rank == 0 and step % 32 == 0:
                print(f"epoch {epoch} step {step} loss {loss.item():.4f} ({time.time() - start:.1f}s)", flush=True)
    dist.barrier()
    dist.destroy_process_group()
    time.sleep(0.5)


if __name__ == "__main__":
    main()
