"""Word-level GRU language model, two processes, effective batch from several micro-batches.

    torchrun --standalone --nproc_per_node 2 train.py
"""
import contextlib
import os
import time
from dataclasses import dataclass

import numpy as np
import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel as DDP


@dataclass
class Config:
    vocab: int = 8000
    dim: int = 256
    seq_len: int = 16
    micro_batch: int = 4
    accumulate: int = 6
    updates: int = 100
    lr: float = 2e-3
    clip: float = 1.0
    tokens: int = 400_000
    seed: int = 3


def make_corpus(cfg):
    rng = np.random.default_rng(cfg.seed)
    jump = rng.integers(0, cfg.vocab, (cfg.vocab, 3))
    pick, noise = rng.integers(0, 3, cfg.tokens), rng.random(cfg.tokens) < 0.2
    random_words = np.minimum(rng.zipf(1.3, cfg.tokens), cfg.vocab) - 1
    out = np.empty(cfg.tokens, dtype=np.int64)
    word = 0
    for i in range(cfg.tokens):
        word = random_words[i] if noise[i] else jump[word, pick[i]]
        out[i] = word
    return torch.from_numpy(out)


class MicroBatches:
    def __init__(self, corpus, cfg, rank, world):
        part = len(corpus) // world
        self.corpus = corpus[rank * part:(rank + 1) * part]
        self.cfg = cfg
        self.gen = torch.Generator().manual_seed(cfg.seed + rank)

    def next(self):
        c = self.cfg
        at = torch.randint(len(self.corpus) - c.seq_len - 1, (c.micro_batch, 1), generator=self.gen)
        window = self.corpus[at + torch.arange(c.seq_len + 1)]
        return window[:, :-1], window[:, 1:]


class WordLM(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.embed = nn.Embedding(cfg.vocab, cfg.dim)
        self.rnn = nn.GRU(cfg.dim, cfg.dim, batch_first=True)
        self.norm = nn.LayerNorm(cfg.dim)
        self.head = nn.Linear(cfg.dim, cfg.vocab, bias=False)
        nn.init.normal_(self.embed.weight, std=0.02)

    def forward(self, tokens):
        h, _ = self.rnn(self.embed(tokens))
        return self.head(self.norm(h))


def train(cfg, rank, world):
    torch.manual_seed(cfg.seed)
    data = MicroBatches(make_corpus(cfg), cfg, rank, world)
    model = DDP(WordLM(cfg), gradient_as_bucket_view=True)
    optimizer = torch.optim.AdamW(model.parameters(), lr=cfg.lr, betas=(0.9, 0.98), fused=True)
    warmup = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda s: min(1.0, (s + 1) / 20))

    start = time.time()
    for update in range(cfg.updates):
        optimizer.zero_grad()
        running = 0.0
        for micro in range(cfg.accumulate):
            x, y = data.next()
            last = micro == cfg.accumulate - 1
            with contextlib.nullcontext() if last else model.no_sync():
                logits = model(x)
                loss = F.cross_entropy(logits.flatten(0, 1), y.flatten()) / cfg.accumulate
                loss.backward()
            running += loss.item()
        torch.nn.utils.clip_grad_norm_(model.parameters(), cfg.clip)
        optimizer.step()
        warmup.step()
        if rank == 0 and update % 10 == 0:
            print(f"update {update:4d} loss {running:.4f} lr {warmup.get_last_lr()[0]:.5f} "
                  f"({time.time() - start:.1f}s)", flush=True)


def main():
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    if rank == 0:
        print(f"world size {world}, pid {os.getpid()}", flush=True)
    train(Config(), rank, world)
    dist.barrier()
    dist.destroy_process_group()
    time.sleep(0.5)


if __name__ == "__main__":
    main()
