# character-level GPT, in the spirit of the usual minimal repositories
import math
import os
import random
import tempfile
import time
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn as nn
from torch.nn import functional as F


@dataclass
class Config:
    block_size: int = 96
    vocab_size: int = 64
    n_layer: int = 4
    n_head: int = 4
    n_embd: int = 128
    batch_size: int = 16
    max_iters: int = 450
    eval_interval: int = 150
    eval_batches: int = 5
    lr: float = 1e-3
    warmup: int = 40


class Block(nn.Module):
    def __init__(self, c: Config):
        super().__init__()
        self.n_head = c.n_head
        self.ln1 = nn.LayerNorm(c.n_embd)
        self.qkv = nn.Linear(c.n_embd, 3 * c.n_embd)
        self.proj = nn.Linear(c.n_embd, c.n_embd)
        self.ln2 = nn.LayerNorm(c.n_embd)
        self.fc = nn.Linear(c.n_embd, 4 * c.n_embd)
        self.out = nn.Linear(4 * c.n_embd, c.n_embd)

    def forward(self, x):
        B, T, C = x.shape
        q, k, v = self.qkv(self.ln1(x)).split(C, dim=2)
        q, k, v = (z.view(B, T, self.n_head, C // self.n_head).transpose(1, 2) for z in (q, k, v))
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(a.transpose(1, 2).reshape(B, T, C))
        return x + self.out(F.gelu(self.fc(self.ln2(x))))


class GPT(nn.Module):
    def __init__(self, c: Config):
        super().__init__()
        self.tok = nn.Embedding(c.vocab_size, c.n_embd)
        self.pos = nn.Parameter(torch.zeros(c.block_size, c.n_embd))
        self.blocks = nn.ModuleList(Block(c) for _ in range(c.n_layer))
        self.ln = nn.LayerNorm(c.n_embd)
        self.head = nn.Linear(c.n_embd, c.vocab_size, bias=False)
        self.head.weight = self.tok.weight
        self.apply(self._init)

    @staticmethod
    def _init(m):
        if isinstance(m, (nn.Linear, nn.Embedding)):
            nn.init.normal_(m.weight, std=0.02)

    def forward(self, idx, targets):
        x = self.tok(idx) + self.pos[: idx.shape[1]]
        for b in self.blocks:
            x = b(x)
        logits = self.head(self.ln(x))
        return F.cross_entropy(logits.flatten(0, 1), targets.flatten())


def make_corpus(path: str, n_words: int = 200_000) -> dict:
    rnd = random.Random(11)
    syll = [a + b for a in "bcdfglmnprstv" for b in "aeiou"]
    lexicon = ["".join(rnd.choices(syll, k=rnd.randint(1, 3))) for _ in range(1500)]
    weights = [1 / (i + 3) for i in range(len(lexicon))]
    text = " ".join(rnd.choices(lexicon, weights=weights, k=n_words))
    chars = sorted(set(text))
    stoi = {ch: i for i, ch in enumerate(chars)}
    np.array([stoi[ch] for ch in text], dtype=np.uint8).tofile(path)
    return stoi


cfg = Config()
torch.manual_seed(1337)
bin_path = os.path.join(tempfile.mkdtemp(prefix="gpt_"), "train.bin")
stoi = make_corpus(bin_path)
tokens = np.memmap(bin_path, dtype=np.uint8, mode="r")
split = int(0.95 * len(tokens))
offsets = np.arange(cfg.block_size + 1)
print(f"{len(tokens):,} characters, {len(stoi)} distinct")


def get_batch(which: str):
    lo, hi = (0, split) if which == "train" else (split, len(tokens))
    start = np.random.randint(lo, hi - cfg.block_size - 1, size=(cfg.batch_size, 1))
    chunk = torch.from_numpy(tokens[start + offsets].astype(np.int64))
    return chunk[:, :-1], chunk[:, 1:]


model = GPT(cfg)
decay = [p for p in model.parameters() if p.dim() >= 2]
rest = [p for p in model.parameters() if p.dim() < 2]
optimizer = torch.optim.AdamW(
    [{"params": decay, "weight_decay": 0.1}, {"params": rest, "weight_decay": 0.0}],
    lr=cfg.lr, betas=(0.9, 0.99), fused=True)
print(f"{sum(p.numel() for p in model.parameters()) / 1e6:.2f}M parameters")


@torch.no_grad()
def estimate_loss():
    model.eval()
    out = torch.stack([model(*get_batch("val")) for _ in range(cfg.eval_batches)]).mean().item()
    model.train()
    return out


def lr_at(it):
    if it < cfg.warmup:
        return cfg.lr * (it + 1) / cfg.warmup
    r = (it - cfg.warmup) / (cfg.max_iters - cfg.warmup)
    return cfg.lr * (0.1 + 0.45 * (1 + math.cos(math.pi * r)))


t0 = time.time()
for it in range(cfg.max_iters):
    for g in optimizer.param_groups:
        g["lr"] = lr_at(it)
    loss = model(*get_batch("train"))
    optimizer.zero_grad(set_to_none=True)
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    if it % 25 == 0:
        dt = time.time() - t0
        print(f"iter {it:4d}: loss {loss.item():.4f}, {dt / (it + 1) * 1000:.1f} ms/iter")
    if (it + 1) % cfg.eval_interval == 0:
        print(f"step {it + 1}: val loss {estimate_loss():.4f}")
