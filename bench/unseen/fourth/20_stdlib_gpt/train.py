"""Byte-level GPT on the Python standard library sources, in the manner of nanoGPT."""
import glob
import math
import os
import tempfile
import time
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclass
class Config:
    block_size: int = 96
    n_layer: int = 3
    n_head: int = 4
    n_embd: int = 96
    dropout: float = 0.0
    batch_size: int = 12
    grad_accum: int = 2
    max_iters: int = 300
    warmup: int = 30
    lr: float = 2e-3
    min_lr: float = 2e-4
    eval_interval: int = 100
    eval_batches: int = 6
    log_interval: int = 20
    grad_clip: float = 1.0


def prepare(folder):
    """Concatenate the sources, first 95 % for training."""
    files = sorted(glob.glob(os.path.join(os.path.dirname(os.__file__), "*.py")))
    data = b"\n".join(open(f, "rb").read() for f in files)
    data = bytes(b if b < 128 else 63 for b in data[:3_000_000])
    cut = int(0.95 * len(data))
    for name, part in (("train", data[:cut]), ("val", data[cut:])):
        np.frombuffer(part, dtype=np.uint8).tofile(os.path.join(folder, name + ".bin"))


class Block(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.c = c
        self.ln1, self.ln2 = nn.LayerNorm(c.n_embd), nn.LayerNorm(c.n_embd)
        self.qkv = nn.Linear(c.n_embd, 3 * c.n_embd, bias=False)
        self.proj = nn.Linear(c.n_embd, c.n_embd, bias=False)
        self.fc = nn.Linear(c.n_embd, 4 * c.n_embd, bias=False)
        self.out = nn.Linear(4 * c.n_embd, c.n_embd, bias=False)

    def forward(self, x):
        B, L, C = x.shape
        q, k, v = (z.view(B, L, self.c.n_head, -1).transpose(1, 2) for z in self.qkv(self.ln1(x)).split(C, dim=2))
        att = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(att.transpose(1, 2).reshape(B, L, C))
        return x + self.out(F.gelu(self.fc(self.ln2(x)), approximate="tanh"))


class GPT(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.c = c
        self.tok = nn.Embedding(128, c.n_embd)
        self.pos = nn.Embedding(c.block_size, c.n_embd)
        self.blocks = nn.Sequential(*(Block(c) for _ in range(c.n_layer)))
        self.ln = nn.LayerNorm(c.n_embd)
        self.head = nn.Linear(c.n_embd, 128, bias=False)
        self.head.weight = self.tok.weight
        self.register_buffer("idx", torch.arange(c.block_size), persistent=False)
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.normal_(p, std=0.02)

    def forward(self, x, y=None):
        h = self.ln(self.blocks(self.tok(x) + self.pos(self.idx[:x.size(1)])))
        if y is None:
            return self.head(h[:, -1])
        return F.cross_entropy(self.head(h).flatten(0, 1), y.flatten())

    @torch.inference_mode()
    def generate(self, prompt, n):
        x = torch.tensor([list(prompt.encode())])
        for _ in range(n):
            probs = F.softmax(self(x[:, -self.c.block_size:]) / 0.8, dim=-1)
            x = torch.cat([x, torch.multinomial(probs, 1)], dim=1)
        return bytes(x[0].tolist()).decode(errors="replace")


def get_batch(folder, split, c):
    # recreate the memmap every time, see nanoGPT
    data = np.memmap(os.path.join(folder, split + ".bin"), dtype=np.uint8, mode="r")
    starts = np.random.randint(0, len(data) - c.block_size - 1, size=c.batch_size)
    chunk = torch.from_numpy(np.stack([data[s:s + c.block_size + 1] for s in starts])).long()
    return chunk[:, :-1], chunk[:, 1:]


def learning_rate(it, c):
    if it < c.warmup:
        return c.lr * (it + 1) / c.warmup
    return c.min_lr + 0.5 * (c.lr - c.min_lr) * (1 + math.cos(math.pi * (it - c.warmup) / (c.max_iters - c.warmup)))


@torch.inference_mode()
def estimate_loss(model, folder, c):
    model.eval()
    out = {s: np.mean([model(*get_batch(folder, s, c)).item() for _ in range(c.eval_batches)]) for s in ("train", "val")}
    model.train()
    return out


def main():
    torch.manual_seed(1337)
    np.random.seed(1337)
    c = Config()
    with tempfile.TemporaryDirectory() as folder:
        prepare(folder)
        model = GPT(c)
        opt = torch.optim.AdamW(model.parameters(), lr=c.lr, betas=(0.9, 0.95), weight_decay=0.1, fused=True)
        best, t0 = float("inf"), time.time()
        for it in range(1, c.max_iters + 1):
            for group in opt.param_groups:
                group["lr"] = learning_rate(it, c)
            for _ in range(c.grad_accum):
                x, y = get_batch(folder, "train", c)
                loss = model(x, y) / c.grad_accum
                loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), c.grad_clip)
            opt.step()
            opt.zero_grad(set_to_none=True)

            if it % c.log_interval == 0:
                tokens = it * c.batch_size * c.grad_accum * c.block_size
                print(f"iter {it}: loss {loss.item() * c.grad_accum:.3f}, {tokens / (time.time() - t0):.0f} tok/s", flush=True)
            if it % c.eval_interval == 0:
                losses = estimate_loss(model, folder, c)
                print(f"eval {it}: train {losses['train']:.3f} val {losses['val']:.3f}")
                if losses["val"] < best:
                    best = losses["val"]
                    torch.save({"model": model.state_dict(), "opt": opt.state_dict(), "it": it}, os.path.join(folder, "ckpt.pt"))
        print(model.generate("def main():\n", 120))


if __name__ == "__main__":
    main()
