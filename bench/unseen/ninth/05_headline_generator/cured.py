"""Headline language model on two processes (gloo).

    torchrun --standalone --nproc-per-node 2 train.py
"""
import argparse
import copy
import math
import os
import time

import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP
from torch.utils.data import DataLoader, Dataset, DistributedSampler


class Headlines(Dataset):
    """Token sequences of a random Markov chain: every word has a few likely successors."""

    def __init__(self, n, length, vocab, seed):
        g = torch.Generator().manual_seed(99)
        successors = torch.randint(0, vocab, (vocab, 6), generator=g)
        g = torch.Generator().manual_seed(seed)
        x = torch.empty(n, length + 1, dtype=torch.long)
        x[:, 0] = torch.randint(0, vocab, (n,), generator=g)
        for t in range(length):
            pick = torch.randint(0, 6, (n,), generator=g)
            x[:, t + 1] = successors[x[:, t], pick]
        self.x = x

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return self.x[i]


class HeadlineLM(nn.Module):
    def __init__(self, vocab, dim, layers, heads, length):
        super().__init__()
        self.tok = nn.Embedding(vocab, dim)
        self.pos = nn.Parameter(0.02 * torch.randn(length, dim))
        layer = nn.TransformerEncoderLayer(dim, heads, 4 * dim, dropout=0.0, activation="gelu",
                                           batch_first=True, norm_first=True)
        self.body = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.norm = nn.LayerNorm(dim)
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(length),
                             persistent=False)
        nn.init.normal_(self.tok.weight, std=0.02)

    def forward(self, ids):
        h = self.body(self.tok(ids) + self.pos, mask=self.mask, is_causal=True)
        return F.linear(self.norm(h), self.tok.weight)


class EMA:
    def __init__(self, model, decay=0.995):
        self.decay = decay
        self.shadow = copy.deepcopy(model).eval().requires_grad_(False)

    @torch.no_grad()
    def update(self, model):
        ours, theirs = list(self.shadow.parameters()), list(model.parameters())
        torch._foreach_lerp_(ours, theirs, 1 - self.decay)


def next_token_loss(model, x):
    logits = model(x[:, :-1])
    return F.cross_entropy(logits.flatten(0, 1), x[:, 1:].flatten())


@torch.no_grad()
def evaluate(model, loader):
    total = torch.zeros(2)
    for x in loader:
        total += torch.tensor([next_token_loss(model, x).item() * len(x), len(x)])
    dist.all_reduce(total)
    return (total[0] / total[1]).item()


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--steps", type=int, default=400)
    p.add_argument("--batch-size", type=int, default=4, help="per process")
    p.add_argument("--vocab", type=int, default=4000)
    p.add_argument("--length", type=int, default=24)
    p.add_argument("--dim", type=int, default=192)
    p.add_argument("--layers", type=int, default=4)
    p.add_argument("--lr", type=float, default=1e-3)
    p.add_argument("--warmup", type=int, default=30)
    p.add_argument("--eval-every", type=int, default=200)
    p.add_argument("--log-every", type=int, default=25)
    args = p.parse_args()

    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.set_num_threads(max(1, (os.cpu_count() or 2) // world))
    torch.manual_seed(17)

    train_set = Headlines(args.steps * args.batch_size * world, args.length, args.vocab, 1)
    val_set = Headlines(64, args.length, args.vocab, 2)
    sampler = DistributedSampler(train_set, shuffle=True)
    loader = DataLoader(train_set, args.batch_size, sampler=sampler, drop_last=True)
    val_loader = DataLoader(val_set, 16, sampler=DistributedSampler(val_set, shuffle=False))

    model = HeadlineLM(args.vocab, args.dim, args.layers, 4, args.length)
    ema = EMA(model)
    ddp = DDP(model, gradient_as_bucket_view=True)
    opt = torch.optim.AdamW(ddp.parameters(), lr=args.lr, weight_decay=0.01, foreach=True)

    def schedule(step):
        if step < args.warmup:
            return (step + 1) / args.warmup
        return 0.5 * (1 + math.cos(math.pi * step / args.steps))

    sched = torch.optim.lr_scheduler.LambdaLR(opt, schedule)

    start = time.time()
    for step, x in enumerate(loader, 1):
        loss = next_token_loss(ddp, x)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        sched.step()
        ema.update(model)
        if step % args.log_every == 0 and rank == 0:
            print(f"step {step} loss {loss.item():.4f} lr {sched.get_last_lr()[0]:.2e}", flush=True)
        if step % args.eval_every == 0:
            val = evaluate(ema.shadow, val_loader)
            if rank == 0:
                print(f"step {step} ema val loss {val:.4f}", flush=True)
    if rank == 0:
        print(f"{step} steps in {time.time() - start:.1f} s", flush=True)
        torch.save(ema.shadow.state_dict(), "/tmp/headline_ema.pt")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
