"""Cell type classification from gene expression, data parallel.

    torchrun --standalone --nproc_per_node=2 train.py
"""
import argparse
import contextlib
import os
import time

import numpy as np
import torch
import torch.distributed as dist
import torch.nn as nn
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, TensorDataset
from torch.utils.data.distributed import DistributedSampler


def make_cells(n_cells, n_genes, n_types, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.integers(0, n_types, n_cells)
    markers = rng.random((n_types, n_genes), dtype=np.float32) < 0.02
    x = rng.standard_exponential((n_cells, n_genes), dtype=np.float32)
    x *= rng.random((n_cells, n_genes), dtype=np.float32) < 0.15
    x += 0.7 * markers[y]
    np.log1p(x, out=x)
    return torch.from_numpy(x), torch.from_numpy(y)


class CellNet(nn.Module):
    def __init__(self, n_genes, n_types, width):
        super().__init__()
        self.encoder = nn.Sequential(
            nn.Linear(n_genes, width),
            nn.LayerNorm(width),
            nn.GELU(),
            nn.Dropout(0.2),
            nn.Linear(width, width // 2),
            nn.LayerNorm(width // 2),
            nn.GELU(),
        )
        self.head = nn.Linear(width // 2, n_types)

    def forward(self, x):
        return self.head(self.encoder(x))


@torch.no_grad()
def accuracy(model, x, y):
    model.eval()
    correct = sum(
        (model(xb).argmax(1) == yb).sum().item()
        for xb, yb in zip(x.split(256), y.split(256))
    )
    model.train()
    return correct / len(y)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--cells", type=int, default=3600)
    parser.add_argument("--genes", type=int, default=4096)
    parser.add_argument("--types", type=int, default=24)
    parser.add_argument("--width", type=int, default=1024)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--micro-batch", type=int, default=8)
    parser.add_argument("--accum", type=int, default=8)
    parser.add_argument("--lr", type=float, default=3e-4)
    args = parser.parse_args()

    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    torch.set_num_threads(max(1, (os.cpu_count() or world) // world))

    x, y = make_cells(args.cells, args.genes, args.types)
    n_val = 400
    x_val, y_val = x[:n_val], y[:n_val]
    train = TensorDataset(x[n_val:], y[n_val:])
    sampler = DistributedSampler(train, shuffle=True, drop_last=True)
    loader = DataLoader(train, batch_size=args.micro_batch, sampler=sampler, drop_last=True)

    model = DDP(CellNet(args.genes, args.types, args.width))
    opt = torch.optim.AdamW(model.parameters(), lr=args.lr)
    loss_fn = nn.CrossEntropyLoss()

    start = time.time()
    updates = 0
    for epoch in range(args.epochs):
        sampler.set_epoch(epoch)
        running = torch.zeros(())
        for i, (xb, yb) in enumerate(loader):
            # effective batch = micro_batch * accum * world
            last = (i + 1) % args.accum == 0
            with contextlib.nullcontext() if last else model.no_sync():
                loss = loss_fn(model(xb), yb) / args.accum
                loss.backward()
            running += loss.detach()
            if last:
                opt.step()
                opt.zero_grad()
                updates += 1
                if rank == 0 and updates % 10 == 0:
                    print(f"update {updates:4d}  loss {running.item() / 10:.4f}", flush=True)
                    running.zero_()
        if rank == 0:
            acc = accuracy(model.module, x_val, y_val)
            print(f"epoch {epoch}: val acc {acc:.3f}  ({time.time() - start:.1f} s)", flush=True)
    dist.barrier()
    if rank == 0:
        print(f"done: {updates} updates in {time.time() - start:.1f} s")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
