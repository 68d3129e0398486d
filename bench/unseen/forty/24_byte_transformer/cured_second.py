"""Decoder-only transformer on bytes of generated arithmetic."""
import argparse
import math
import random

import torch
import torch.nn as nn
import torch.nn.functional as F


def corpus(n_chars, seed):
    rnd = random.Random(seed)
    out = []
    size = 0
    while size < n_chars:
        a, b = rnd.randrange(100), rnd.randrange(100)
        s = f"{a}+{b}={a + b};"
        out.append(s)
        size += len(s)
    return torch.tensor(list("".join(out).encode()), dtype=torch.long)


def positions(length, dim):
    table = torch.zeros(length, dim)
    for p in range(length):
        for i in range(0, dim, 2):
            angle = p / (10000 ** (i / dim))
            table[p, i] = math.sin(angle)
            table[p, i + 1] = math.cos(angle)
    return table


class Attention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.proj(y.transpose(1, 2).reshape(b, t, d))


class Layer(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.attn = Attention(dim, heads)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Linear(4 * dim, dim))

    def forward(self, x):
        x = x + self.attn(self.n1(x))
        return x + self.mlp(self.n2(x))


class ByteModel(nn.Module):
    def __init__(self, dim=96, heads=4, depth=3, vocab=128):
        super().__init__()
        self.dim = dim
        self.tok = nn.Embedding(vocab, dim)
        self.layers = nn.ModuleList(Layer(dim, heads) for _ in range(depth))
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, vocab)

    def forward(self, ids):
        x = self.tok(ids) + positions(ids.size(1), self.dim)
        for layer in self.layers:
            x = layer(x)
        return self.head(self.norm(x))


@torch.no_grad()
def accuracy(model, ids, target):
    model.eval()
    hit = (model(ids).argmax(-1) == target).float().mean().item()
    model.train()
    return hit


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=500)
    ap.add_argument("--batch", type=int, default=12)
    ap.add_argument("--context", type=int, default=64)
    cfg = ap.parse_args()
    torch.manual_seed(8)
    text = corpus(100_000, 8)
    model = ByteModel()
    opt = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for step in range(1, cfg.steps + 1):
        at = torch.randint(0, len(text) - cfg.context - 1, (cfg.batch,))
        chunk = torch.stack([text[i:i + cfg.context + 1] for i in at.tolist()])
        ids, target = chunk[:, :-1], chunk[:, 1:]
        loss = F.cross_entropy(model(ids).flatten(0, 1), target.flatten())
        opt.zero_grad()
        loss.backward()
        opt.step()
        if step % 25 == 0:
            acc = accuracy(model, ids, target)
            print(f"step {step} loss {loss.item():.3f} acc {acc:.3f}")


if __name__ == "__main__":
    main()
