"""Small decoder-only transformer that writes fiddle tunes in ABC notation, character by character.

    python train.py                      # default run
    python train.py --n-layer 6 --n-embd 192 --max-iters 5000
"""
import argparse
import math
import os
import random
import time
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclass
class TuneConfig:
    vocab_size: int = 64
    block_size: int = 128
    n_layer: int = 4
    n_head: int = 4
    n_embd: int = 128
    dropout: float = 0.0


class Attention(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.n_head, self.dropout = cfg.n_head, cfg.dropout
        self.qkv = nn.Linear(cfg.n_embd, 3 * cfg.n_embd, bias=False)
        self.proj = nn.Linear(cfg.n_embd, cfg.n_embd, bias=False)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.n_head, c // self.n_head).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True,
                                           dropout_p=self.dropout if self.training else 0.0)
        return self.proj(y.transpose(1, 2).reshape(b, t, c))


class Block(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.ln1, self.ln2 = nn.LayerNorm(cfg.n_embd), nn.LayerNorm(cfg.n_embd)
        self.attn = Attention(cfg)
        self.mlp = nn.Sequential(nn.Linear(cfg.n_embd, 4 * cfg.n_embd), nn.GELU(),
                                 nn.Linear(4 * cfg.n_embd, cfg.n_embd), nn.Dropout(cfg.dropout))

    def forward(self, x):
        x = x + self.attn(self.ln1(x))
        return x + self.mlp(self.ln2(x))


class TuneGPT(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.cfg = cfg
        self.tok = nn.Embedding(cfg.vocab_size, cfg.n_embd)
        self.pos = nn.Embedding(cfg.block_size, cfg.n_embd)
        self.blocks = nn.ModuleList(Block(cfg) for _ in range(cfg.n_layer))
        self.ln = nn.LayerNorm(cfg.n_embd)
        self.head = nn.Linear(cfg.n_embd, cfg.vocab_size, bias=False)
        self.head.weight = self.tok.weight
        self.apply(self._init)

    @staticmethod
    def _init(m):
        if isinstance(m, (nn.Linear, nn.Embedding)):
            nn.init.normal_(m.weight, std=0.02)
        if isinstance(m, nn.Linear) and m.bias is not None:
            nn.init.zeros_(m.bias)

    def forward(self, idx, targets=None):
        x = self.tok(idx) + self.pos.weight[: idx.shape[1]]
        for block in self.blocks:
            x = block(x)
        logits = self.head(self.ln(x))
        if targets is None:
            return logits, None
        return logits, F.cross_entropy(logits.flatten(0, 1), targets.flatten())

    @torch.no_grad()
    def generate(self, idx, n):
        for _ in range(n):
            logits, _ = self(idx[:, -self.cfg.block_size:])
            nxt = torch.multinomial(F.softmax(logits[:, -1] / 0.9, -1), 1)
            idx = torch.cat([idx, nxt], 1)
        return idx


def write_tunes(n, seed):
    """Jigs and reels put together from short motifs over a chord scheme."""
    rng = random.Random(seed)
    scale = ["D", "E", "F", "G", "A", "B", "c", "d", "e", "f", "g", "a", "b"]
    schemes = ["DDGA", "DGDA", "DBGA", "GDAD", "DADG"]
    tunes = []
    for i in range(n):
        jig = rng.random() < 0.5
        beats = 6 if jig else 8
        head = f"X:{i}\nR:{'jig' if jig else 'reel'}\nM:{'6/8' if jig else '4/4'}\nK:{rng.choice(['D', 'G', 'Em', 'Am'])}\n"
        motif = [rng.choice([-2, -1, 0, 1, 2]) for _ in range(beats)]
        parts = []
        for _ in range(2):
            scheme, bars = rng.choice(schemes), []
            for chord in scheme * 2:
                at, bar = scale.index(chord), []
                for j in range(beats):
                    if rng.random() < 0.15:
                        motif[j] = rng.choice([-2, -1, 0, 1, 2])
                    at = min(max(at + motif[j], 0), len(scale) - 1)
                    bar.append(scale[at])
                bars.append("".join(bar[: beats // 2]) + " " + "".join(bar[beats // 2:]))
            parts.append("|: " + " | ".join(bars) + " :|")
        tunes.append(head + "\n".join(parts) + "\n\n")
    return "".join(tunes)


def get_batch(data, block, batch, gen):
    at = torch.randint(len(data) - block - 1, (batch, 1), generator=gen)
    chunk = data[at + torch.arange(block + 1)].long()
    return chunk[:, :-1], chunk[:, 1:]


@torch.no_grad()
def estimate_loss(model, data, args):
    model.eval()
    gen = torch.Generator().manual_seed(99)
    losses = [model(*get_batch(data, args.block_size, args.batch_size, gen))[1] for _ in range(args.eval_iters)]
    model.train()
    return torch.stack(losses).mean().item()


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--tunes", type=int, default=4000)
    p.add_argument("--block-size", type=int, default=128)
    p.add_argument("--batch-size", type=int, default=12)
    p.add_argument("--n-layer", type=int, default=4)
    p.add_argument("--n-head", type=int, default=4)
    p.add_argument("--n-embd", type=int, default=128)
    p.add_argument("--lr", type=float, default=1e-3)
    p.add_argument("--warmup", type=int, default=50)
    p.add_argument("--max-iters", type=int, default=500)
    p.add_argument("--eval-interval", type=int, default=250)
    p.add_argument("--eval-iters", type=int, default=10)
    p.add_argument("--log-interval", type=int, default=25)
    p.add_argument("--out", default=None, help="directory for the best checkpoint")
    p.add_argument("--seed", type=int, default=1337)
    args = p.parse_args()

    torch.manual_seed(args.seed)
    text = write_tunes(args.tunes, args.seed)
    chars = sorted(set(text))
    lookup = np.zeros(128, dtype=np.uint8)
    for i, ch in enumerate(chars):
        lookup[ord(ch)] = i
    ids = torch.from_numpy(lookup[np.frombuffer(text.encode("ascii"), dtype=np.uint8)])
    cut = int(0.95 * len(ids))
    train_ids, val_ids = ids[:cut], ids[cut:]
    print(f"{len(ids):,} characters, vocabulary {len(chars)}")

    model = TuneGPT(TuneConfig(len(chars), args.block_size, args.n_layer, args.n_head, args.n_embd))
    decay = [q for q in model.parameters() if q.dim() >= 2]
    plain = [q for q in model.parameters() if q.dim() < 2]
    opt = torch.optim.AdamW([{"params": decay, "weight_decay": 0.1}, {"params": plain, "weight_decay": 0.0}],
                            lr=args.lr, betas=(0.9, 0.99))

    def rate(it):
        if it < args.warmup:
            return (it + 1) / args.warmup
        return 0.1 + 0.45 * (1 + math.cos(math.pi * (it - args.warmup) / max(1, args.max_iters - args.warmup)))

    sched = torch.optim.lr_scheduler.LambdaLR(opt, rate)
    gen = torch.Generator().manual_seed(args.seed)
    best, t0 = float("inf"), time.time()
    for it in range(args.max_iters):
        x, y = get_batch(train_ids, args.block_size, args.batch_size, gen)
        _, loss = model(x, y)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        sched.step()
        if it % args.log_interval == 0:
            print(f"iter {it:5d} loss {loss.item():.5f} lr {sched.get_last_lr()[0]:.2e} {time.time() - t0:.1f}s", flush=True)
        if (it + 1) % args.eval_interval == 0:
            val = estimate_loss(model, val_ids, args)
            print(f"iter {it:5d} val {val:.5f}", flush=True)
            if val < best and args.out:
                os.makedirs(args.out, exist_ok=True)
                torch.save({"model": model.state_dict(), "cfg": model.cfg, "chars": chars}, os.path.join(args.out, "best.pt"))
            best = min(best, val)

    model.eval()
    sample = model.generate(torch.tensor([[chars.index("X")]]), 100)[0]
    print("".join(chars[i] for i in sample.tolist()))


if __name__ == "__main__":
    main()
