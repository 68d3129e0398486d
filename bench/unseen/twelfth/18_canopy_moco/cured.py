"""Self-supervised pre-training on canopy reflectance spectra: two views, a momentum
encoder and a queue of negatives.  torchrun --nproc_per_node=2 train.py"""
import argparse
import copy
import time

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP

BANDS = 192


def make_spectra(n, seed=0):
    g = torch.Generator().manual_seed(seed)
    wave = torch.linspace(0, 1, BANDS)
    edge = torch.sigmoid((wave - 0.4 - 0.1 * torch.rand(n, 1, generator=g)) * 30)
    out = 0.05 + 0.45 * edge * torch.rand(n, 1, generator=g)
    for centre in (0.15, 0.25, 0.55, 0.7, 0.85):
        depth = 0.2 * torch.rand(n, 1, generator=g)
        width = 0.01 + 0.04 * torch.rand(n, 1, generator=g)
        out -= depth * torch.exp(-((wave - centre) / width) ** 2)
    return out[:, None]


def augment(x):
    """Gain, offset, band drop-out and noise, the whole batch at once."""
    n = len(x)
    gain = 1 + 0.2 * torch.randn(n, 1, 1)
    offset = 0.03 * torch.randn(n, 1, 1)
    start = torch.randint(BANDS - 24, (n, 1, 1))
    band = torch.arange(BANDS)
    keep = (band < start) | (band >= start + 24)
    return (x * gain + offset + 0.01 * torch.randn_like(x)) * keep


class Encoder(nn.Module):
    def __init__(self, dim, width=32):
        super().__init__()
        def block(i, o):
            return nn.Sequential(nn.Conv1d(i, o, 5, stride=2, padding=2, bias=False),
                                 nn.BatchNorm1d(o), nn.ReLU())
        self.body = nn.Sequential(block(1, width), block(width, 2 * width),
                                  block(2 * width, 4 * width), block(4 * width, 4 * width),
                                  nn.AdaptiveAvgPool1d(1), nn.Flatten())
        self.head = nn.Sequential(nn.Linear(4 * width, 128), nn.ReLU(), nn.Linear(128, dim))

    def forward(self, x):
        return F.normalize(self.head(self.body(x)), dim=1)


class MoCo(nn.Module):
    def __init__(self, dim, queue, momentum, temperature):
        super().__init__()
        self.query = Encoder(dim)
        self.key = copy.deepcopy(self.query).requires_grad_(False)
        self.momentum, self.temperature = momentum, temperature
        self.register_buffer("queue", F.normalize(torch.randn(queue, dim), dim=1))
        self.pos = 0

    def forward(self, a, b):
        q = self.query(a)
        with torch.no_grad():
            torch._foreach_lerp_(list(self.key.parameters()), list(self.query.parameters()),
                                 1 - self.momentum)
            k = self.key(b)
        positive = (q * k).sum(1, keepdim=True)
        logits = torch.cat([positive, q @ self.queue.T], dim=1) / self.temperature
        return logits, k

    @torch.no_grad()
    def enqueue(self, k):
        """The same keys in the same order on every rank."""
        every = [torch.empty_like(k) for _ in range(dist.get_world_size())]
        dist.all_gather(every, k)
        every = torch.cat(every)
        self.queue[self.pos: self.pos + len(every)] = every
        self.pos = (self.pos + len(every)) % len(self.queue)


@torch.no_grad()
def effective_rank(z):
    """RankMe: exp of the entropy of the singular values."""
    s = torch.linalg.svdvals(z)
    p = s / s.sum() + 1e-7
    return torch.exp(-(p * p.log()).sum()).item()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=420)
    ap.add_argument("--batch", type=int, default=16)
    ap.add_argument("--queue", type=int, default=65536)
    ap.add_argument("--dim", type=int, default=128)
    ap.add_argument("--lr", type=float, default=0.03)
    args = ap.parse_args()

    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(0)
    spectra = make_spectra(40_000)[rank::world]
    model = MoCo(args.dim, args.queue, 0.99, 0.1)
    ddp = DDP(model, broadcast_buffers=False)
    torch.manual_seed(100 + rank)
    opt = torch.optim.SGD(model.query.parameters(), lr=args.lr, momentum=0.9, weight_decay=1e-4)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, args.steps)
    target = torch.zeros(args.batch, dtype=torch.long)
    recent = torch.zeros(6144, args.dim)
    erank = float("nan")

    t0 = time.time()
    for step in range(1, args.steps + 1):
        x = spectra[torch.randint(len(spectra), (args.batch,))]
        logits, k = ddp(augment(x), augment(x))
        loss = F.cross_entropy(logits, target)
        opt.zero_grad()
        loss.backward()
        opt.step()
        sched.step()
        model.enqueue(k)

        at = (step * args.batch) % len(recent)
        recent[at: at + args.batch] = k
        if step % 100 == 0:
            erank = effective_rank(recent)
            if erank < 1.2 and step > 200:
                raise RuntimeError(f"collapsed at step {step}: effective rank {erank:.2f}")

        if rank == 0 and step % 20 == 0:
            print(f"step {step:4d}  loss {loss.item():.4f}  rank of keys {erank:.1f}  "
                  f"{1000 * (time.time() - t0) / step:.1f} ms/step", flush=True)
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
