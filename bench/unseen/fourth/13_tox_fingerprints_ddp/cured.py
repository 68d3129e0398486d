"""Multi-task toxicity prediction from 2048-bit molecular fingerprints, data parallel.

    torchrun --standalone --nproc_per_node=2 train.py
"""
import argparse
import contextlib
import os
import time

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset, DistributedSampler

N_BITS = 2048
N_TASKS = 12


class FingerprintSet(Dataset):
    """Sparse random fingerprints, labels from a noisy linear rule, some labels missing."""

    def __init__(self, n, seed, rule_seed=99):
        g = torch.Generator().manual_seed(seed)
        self.bits = (torch.rand(n, N_BITS, generator=g) < 0.05).to(torch.uint8)
        rule = torch.randn(N_BITS, N_TASKS, generator=torch.Generator().manual_seed(rule_seed))
        score = self.bits.float() @ rule + 2.0 * torch.randn(n, N_TASKS, generator=g)
        self.labels = (score > 4.0).float()
        self.mask = (torch.rand(n, N_TASKS, generator=g) < 0.8).float()

    def __len__(self):
        return len(self.bits)

    def __getitem__(self, i):
        return self.bits[i].float(), self.labels[i], self.mask[i]


class ToxNet(nn.Module):
    def __init__(self, hidden, dropout):
        super().__init__()
        self.inp = nn.Linear(N_BITS, hidden)
        self.mid = nn.Linear(hidden, hidden)
        self.norm1 = nn.LayerNorm(hidden)
        self.norm2 = nn.LayerNorm(hidden)
        self.drop = nn.Dropout(dropout)
        self.out = nn.Linear(hidden, N_TASKS)

    def forward(self, x):
        h = self.drop(F.gelu(self.norm1(self.inp(x))))
        h = h + self.drop(F.gelu(self.norm2(self.mid(h))))
        return self.out(h)


def masked_bce(logits, y, m):
    return (F.binary_cross_entropy_with_logits(logits, y, reduction="none") * m).sum() / m.sum()


@torch.no_grad()
def evaluate(model, loader):
    model.eval()
    stats = torch.zeros(3)
    for x, y, m in loader:
        logits = model.module(x)
        stats[0] += (F.binary_cross_entropy_with_logits(logits, y, reduction="none") * m).sum()
        stats[1] += (((logits > 0) == (y > 0.5)) * m).sum()
        stats[2] += m.sum()
    dist.all_reduce(stats)
    return (stats[0] / stats[2]).item(), (stats[1] / stats[2]).item()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--molecules", type=int, default=8192)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--micro-batch", type=int, default=32)
    parser.add_argument("--accum", type=int, default=8, help="micro batches per optimizer step")
    parser.add_argument("--hidden", type=int, default=1536)
    parser.add_argument("--lr", type=float, default=6e-4)
    args = parser.parse_args()

    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(1234)

    train_set = FingerprintSet(args.molecules, seed=0)
    valid_set = FingerprintSet(1024, seed=1)
    sampler = DistributedSampler(train_set, shuffle=True, drop_last=True)
    train_loader = DataLoader(train_set, batch_size=args.micro_batch, sampler=sampler, drop_last=True)
    valid_loader = DataLoader(
        valid_set, batch_size=128, sampler=DistributedSampler(valid_set, shuffle=False)
    )

    model = DDP(ToxNet(args.hidden, dropout=0.2))
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=0.01)
    if rank == 0:
        n_par = sum(p.numel() for p in model.parameters())
        print(f"{world} ranks, {n_par / 1e6:.1f}M parameters, "
              f"effective batch {args.micro_batch * args.accum * world}", flush=True)

    t0, updates = time.time(), 0
    for epoch in range(args.epochs):
        sampler.set_epoch(epoch)
        model.train()
        optimizer.zero_grad()
        seen_loss = 0.0
        for i, (x, y, m) in enumerate(train_loader):
            last = (i + 1) % args.accum == 0
            with contextlib.nullcontext() if last else model.no_sync():
                loss = masked_bce(model(x), y, m) / args.accum
                loss.backward()
            seen_loss += loss.item() * args.accum

            if last:
                torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                optimizer.zero_grad()
                updates += 1

        val_loss, val_acc = evaluate(model, valid_loader)
        if rank == 0:
            print(
                f"epoch {epoch}: train {seen_loss / (i + 1):.4f}  valid {val_loss:.4f}  acc {val_acc:.3f}  "
                f"{updates / (time.time() - t0):.2f} updates/s",
                flush=True,
            )

    dist.destroy_process_group()


if __name__ == "__main__":
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    main()
