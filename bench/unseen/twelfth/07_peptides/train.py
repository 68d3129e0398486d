"""Language model of peptide sequences, read as random windows of a memory-mapped token file."""
import argparse
import csv
import os
import tempfile
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

VOCAB = 24


def write_tokens(path, count, seed=0):
    """Amino acids from a handful of motif families, separated by token 0."""
    rng = np.random.default_rng(seed)
    motifs = rng.integers(1, VOCAB, (64, 12), dtype=np.uint8)
    motifs[:, -1] = np.where(rng.random(64) < 0.2, 0, motifs[:, -1])
    tokens = motifs[rng.integers(0, 64, count // 12 + 1)].reshape(-1)[:count]
    noise = rng.random(count) < 0.05
    tokens[noise] = rng.integers(1, VOCAB, int(noise.sum()), dtype=np.uint8)
    tokens.tofile(path)


class Layer(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = self.qkv(self.norm1(x)).view(b, t, 3, self.heads, -1).permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.proj(mixed.transpose(1, 2).reshape(b, t, c))
        return x + self.down(F.gelu(self.up(self.norm2(x)), approximate="tanh"))


class PeptideLM(nn.Module):
    def __init__(self, context, width=160, depth=3, heads=5):
        super().__init__()
        self.token, self.place = nn.Embedding(VOCAB, width), nn.Embedding(context, width)
        self.layers = nn.Sequential(*[Layer(width, heads) for _ in range(depth)])
        self.norm, self.out = nn.LayerNorm(width), nn.Linear(width, VOCAB)

    def forward(self, tokens):
        x = self.token(tokens) + self.place.weight[:tokens.shape[1]]
        return self.out(self.norm(self.layers(x)))


def get_batch(path, batch, context, rng):
    data = np.memmap(path, dtype=np.uint8, mode="r")
    starts = rng.integers(0, len(data) - context - 1, batch)
    block = torch.from_numpy(np.stack([data[s:s + context + 1] for s in starts]).astype(np.int64))
    return block[:, :-1], block[:, 1:]


def lm_loss(model, tokens, target):
    return F.cross_entropy(model(tokens).flatten(0, 1), target.flatten())


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=400)
    ap.add_argument("--batch", type=int, default=10)
    ap.add_argument("--accumulate", type=int, default=2)
    ap.add_argument("--context", type=int, default=96)
    args = ap.parse_args()
    torch.manual_seed(0)
    rng = np.random.default_rng(1)

    with tempfile.TemporaryDirectory() as folder:
        path, held = os.path.join(folder, "train.bin"), os.path.join(folder, "held.bin")
        write_tokens(path, 12_000_000)
        write_tokens(held, 200_000, seed=1)
        model = PeptideLM(args.context)
        params = list(model.parameters())
        average = [p.detach().clone() for p in params]
        opt = torch.optim.AdamW(params, lr=6e-4, betas=(0.9, 0.95), weight_decay=0.1, fused=True)
        sched = torch.optim.lr_scheduler.OneCycleLR(opt, 6e-4, total_steps=args.steps)

        with open(os.path.join(folder, "log.csv"), "w", newline="") as handle:
            writer, began = csv.writer(handle), time.time()
            for step in range(1, args.steps + 1):
                total = 0.0
                for _ in range(args.accumulate):
                    loss = lm_loss(model, *get_batch(path, args.batch, args.context, rng))
                    (loss / args.accumulate).backward()
                    total += loss.item() / args.accumulate
                norm = nn.utils.clip_grad_norm_(params, 1.0).item()
                opt.step()
                sched.step()
                opt.zero_grad()
                with torch.no_grad():
                    torch._foreach_lerp_(average, params, 0.01)
                writer.writerow([step, total, norm, sched.get_last_lr()[0], time.time() - began])
                handle.flush()
                if step % 20 == 0:
                    print(f"step {step} loss {total:.4f} norm {norm:.2f} {time.time() - began:.1f}s", flush=True)
                if step % 200 == 0:
                    with torch.inference_mode():
                        score = sum(lm_loss(model, *get_batch(held, 16, args.context, rng)).item()
                                    for _ in range(4)) / 4
                    print(f"  held-out loss {score:.4f}", flush=True)


if __name__ == "__main__":
    main()
