"""Will this reader borrow this title?  Factorised click model for a library network.

Started with torchrun, one process per rank; every rank reads its own share of the branches.
Gradients of several micro-batches are gathered before an update, since the rare titles need
a large effective batch.
"""
import argparse
import math
import os
import time

import numpy as np
import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from sklearn.metrics import roc_auc_score
from torch.nn.parallel import DistributedDataParallel


class Loans:
    """Reader/title pairs with a label, drawn from a latent taste model with popularity skew."""

    def __init__(self, readers, titles, rank, seed):
        truth = np.random.default_rng(seed)
        self.taste = truth.normal(0, 1, (readers, 8)).astype(np.float32)
        self.theme = truth.normal(0, 1, (titles, 8)).astype(np.float32)
        self.shelf = truth.integers(0, 60, titles)
        self.age = truth.integers(0, 9, readers)
        popularity = 1.0 / (np.arange(titles) + 20.0)
        self.cdf = np.cumsum(popularity / popularity.sum())
        self.rng = np.random.default_rng([seed, rank])

    def batch(self, n):
        r = self.rng.integers(0, len(self.taste), n)
        t = np.minimum(np.searchsorted(self.cdf, self.rng.random(n)), len(self.theme) - 1)
        logit = (self.taste[r] * self.theme[t]).sum(1) / 1.5 + 0.3 * np.sin(self.shelf[t] + self.age[r]) - 0.8
        y = (self.rng.random(n) < 1 / (1 + np.exp(-logit))).astype(np.float32)
        season = self.rng.integers(0, 12, n)
        fields = np.stack([r, t, self.shelf[t], self.age[r], season], 1)
        return torch.from_numpy(fields), torch.from_numpy(y)


class CrossLayer(nn.Module):
    def __init__(self, d):
        super().__init__()
        self.lin = nn.Linear(d, d)

    def forward(self, x0, x):
        return x0 * self.lin(x) + x


class LoanModel(nn.Module):
    def __init__(self, sizes, dim, hidden):
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(s, dim) for s in sizes)
        for t in self.tables:
            nn.init.normal_(t.weight, std=0.05)
        d = dim * len(sizes)
        self.cross = nn.ModuleList(CrossLayer(d) for _ in range(2))
        self.deep = nn.Sequential(nn.Linear(d, hidden), nn.ReLU(), nn.Linear(hidden, hidden // 2), nn.ReLU())
        self.out = nn.Linear(d + hidden // 2, 1)

    def forward(self, fields):
        e = [t(fields[:, i]) for i, t in enumerate(self.tables)]
        x0 = torch.cat(e, 1)
        x = x0
        for c in self.cross:
            x = c(x0, x)
        pair = (e[0] * e[1]).sum(1)
        return self.out(torch.cat([x, self.deep(x0)], 1))[:, 0] + pair


class LoanMonitor:
    """Quality of the predictions made so far (each is made before its loan is trained on)."""

    def __init__(self):
        self.scores, self.labels = [], []
        self.auc = float("nan")

    def add(self, scores, labels):
        self.scores.append(scores.detach().numpy())
        self.labels.append(labels.numpy())

    def refresh(self):
        y = np.concatenate(self.labels)
        s = np.concatenate(self.scores)
        self.auc = roc_auc_score(y, s)
        return self.auc


def cosine(step, total, warm):
    if step < warm:
        return (step + 1) / warm
    return 0.5 * (1 + math.cos(math.pi * (step - warm) / max(1, total - warm)))


def parse():
    p = argparse.ArgumentParser()
    p.add_argument("--readers", type=int, default=30_000)
    p.add_argument("--titles", type=int, default=20_000)
    p.add_argument("--dim", type=int, default=48)
    p.add_argument("--hidden", type=int, default=128)
    p.add_argument("--micro", type=int, default=256)
    p.add_argument("--accumulate", type=int, default=8)
    p.add_argument("--steps", type=int, default=260)
    p.add_argument("--lr", type=float, default=3e-3)
    p.add_argument("--log-every", type=int, default=20)
    p.add_argument("--save", default="")
    p.add_argument("--seed", type=int, default=21)
    return p.parse_args()


def main():
    args = parse()
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(args.seed)

    loans = Loans(args.readers, args.titles, rank, args.seed)
    model = LoanModel([args.readers, args.titles, 60, 9, 12], args.dim, args.hidden)
    ddp = DistributedDataParallel(model, gradient_as_bucket_view=True)
    opt = torch.optim.Adam(ddp.parameters(), args.lr, foreach=True)
    sched = torch.optim.lr_scheduler.LambdaLR(opt, lambda s: cosine(s, args.steps, 20))
    monitor = LoanMonitor() if rank == 0 else None
    began, window = time.time(), torch.zeros(())

    for step in range(1, args.steps + 1):
        opt.zero_grad(set_to_none=False)
        for k in range(args.accumulate):
            fields, y = loans.batch(args.micro)
            logits = ddp(fields)
            loss = F.binary_cross_entropy_with_logits(logits, y) / args.accumulate
            loss.backward()
            window += loss.detach()
            if monitor is not None:
                monitor.add(logits, y)
        opt.step()
        sched.step()
        if monitor is not None and step % args.log_every == 0:
            monitor.refresh()
        if step % args.log_every == 0:
            mean = window / args.log_every / world
            dist.all_reduce(mean)
            window.zero_()
            if rank == 0:
                print(f"step {step:4d}  loss {mean.item():.5f}  auc {monitor.auc:.4f}  "
                      f"{step * args.accumulate * args.micro * world / (time.time() - began):.0f} loans/s", flush=True)

    if rank == 0 and args.save:
        os.makedirs(args.save, exist_ok=True)
        torch.save(model.state_dict(), os.path.join(args.save, "loans.pt"))
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
