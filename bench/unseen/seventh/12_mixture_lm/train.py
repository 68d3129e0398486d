"""Small mixture-of-experts language model on arithmetic / recipe / log-line text, byte level."""
import argparse
import math
import random
import time

import torch
import torch.nn as nn
import torch.nn.functional as F


def write_corpus(n_lines, seed):
    rng = random.Random(seed)
    foods = ["flour", "butter", "sugar", "salt", "yeast", "milk", "honey", "rye", "oats"]
    units = ["g", "ml", "tsp", "cups"]
    hosts = ["db01", "web3", "cache", "edge7", "auth"]
    lines = []
    for _ in range(n_lines):
        kind = rng.random()
        if kind < 0.35:
            a, b = rng.randint(0, 999), rng.randint(0, 999)
            lines.append(f"{a} + {b} = {a + b}")
        elif kind < 0.7:
            items = ", ".join(f"{rng.randint(1, 500)} {rng.choice(units)} {rng.choice(foods)}"
                              for _ in range(rng.randint(2, 4)))
            lines.append(f"take {items} and mix")
        else:
            lines.append(f"[{rng.randint(0, 23):02d}:{rng.randint(0, 59):02d}] {rng.choice(hosts)} "
                         f"status={rng.choice([200, 301, 404, 500])} t={rng.randint(1, 900)}ms")
    return "\n".join(lines)


class Attention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(dim, 3 * dim, bias=False)
        self.out = nn.Linear(dim, dim, bias=False)

    def forward(self, x):
        b, t, d = x.shape
        q, k, v = self.qkv(x).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return self.out(y.transpose(1, 2).reshape(b, t, d))


class SparseExperts(nn.Module):
    """Top-2 routing over a handful of experts, no capacity limit, no dropped tokens."""

    def __init__(self, dim, n_experts, hidden, top_k=2):
        super().__init__()
        self.n_experts, self.top_k = n_experts, top_k
        self.router = nn.Linear(dim, n_experts, bias=False)
        self.experts = nn.ModuleList(
            nn.Sequential(nn.Linear(dim, hidden), nn.GELU(), nn.Linear(hidden, dim)) for _ in range(n_experts))

    def forward(self, x):
        flat = x.reshape(-1, x.shape[-1])
        probs = self.router(flat).softmax(-1)
        weight, choice = probs.topk(self.top_k, dim=-1)
        weight = weight / weight.sum(-1, keepdim=True)

        # group the (token, slot) pairs by expert, so that each expert sees one dense block
        order = choice.flatten().argsort()
        counts = torch.bincount(choice.flatten(), minlength=self.n_experts)
        token = order // self.top_k
        blocks = flat[token].split(counts.tolist())
        done = torch.cat([expert(block) for expert, block in zip(self.experts, blocks)])
        done = done * weight.flatten()[order].unsqueeze(1)
        out = torch.zeros_like(flat).index_add_(0, token, done)

        load = counts.float() / counts.sum()
        balance = self.n_experts * (load * probs.mean(0)).sum()
        return out.view_as(x), balance


class Block(nn.Module):
    def __init__(self, dim, heads, n_experts, hidden):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.attn = Attention(dim, heads)
        self.moe = SparseExperts(dim, n_experts, hidden)

    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        y, balance = self.moe(self.norm2(x))
        return x + y, balance


class MixtureLM(nn.Module):
    def __init__(self, vocab, dim, layers, heads, n_experts, context):
        super().__init__()
        self.embed = nn.Embedding(vocab, dim)
        self.pos = nn.Embedding(context, dim)
        self.blocks = nn.ModuleList(Block(dim, heads, n_experts, 3 * dim) for _ in range(layers))
        self.norm = nn.LayerNorm(dim)
        self.head = nn.Linear(dim, vocab, bias=False)

    def forward(self, ids):
        x = self.embed(ids) + self.pos.weight[:ids.shape[1]]
        balance = 0.0
        for block in self.blocks:
            x, b = block(x)
            balance = balance + b
        return self.head(self.norm(x)), balance / len(self.blocks)


def draw(data, batch, context, gen):
    start = torch.randint(0, len(data) - context - 1, (batch, 1), generator=gen)
    window = data[start + torch.arange(context + 1)]
    return window[:, :-1], window[:, 1:]


@torch.inference_mode()
def validate(model, data, batch, context):
    model.eval()
    gen = torch.Generator().manual_seed(0)
    losses = []
    for _ in range(4):
        x, y = draw(data, batch, context, gen)
        logits, _ = model(x)
        losses.append(F.cross_entropy(logits.flatten(0, 1), y.flatten()).item())
    model.train()
    return sum(losses) / len(losses)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--steps", type=int, default=240)
    p.add_argument("--batch", type=int, default=12)
    p.add_argument("--context", type=int, default=128)
    p.add_argument("--dim", type=int, default=128)
    p.add_argument("--layers", type=int, default=4)
    p.add_argument("--experts", type=int, default=6)
    p.add_argument("--lr", type=float, default=1e-3)
    args = p.parse_args()

    torch.manual_seed(0)
    text = write_corpus(30_000, seed=1)
    alphabet = sorted(set(text))
    lookup = {c: i for i, c in enumerate(alphabet)}
    data = torch.tensor([lookup[c] for c in text])
    train, held = data[:-50_000], data[-50_000:]

    model = MixtureLM(len(alphabet), args.dim, args.layers, 4, args.experts, args.context)
    opt = torch.optim.AdamW(model.parameters(), lr=args.lr, betas=(0.9, 0.95), weight_decay=0.1, fused=True)
    warm = 20
    sched = torch.optim.lr_scheduler.LambdaLR(opt, lambda s: min((s + 1) / warm, 0.5 + 0.5 * math.cos(
        math.pi * s / args.steps)))
    print(f"{sum(q.numel() for q in model.parameters()) / 1e6:.2f}M parameters, {len(data)} characters")

    gen = torch.Generator().manual_seed(1)
    began = time.time()
    for step in range(args.steps):
        x, y = draw(train, args.batch, args.context, gen)
        logits, balance = model(x)
        loss = F.cross_entropy(logits.flatten(0, 1), y.flatten())
        opt.zero_grad(set_to_none=True)
        (loss + 0.01 * balance).backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        sched.step()
        if step % 20 == 0:
            print(f"step {step:4d}  loss {loss.item():.3f}  balance {balance.item():.2f}  "
                  f"{time.time() - began:.1f}s", flush=True)
        if (step + 1) % 120 == 0:
            print(f"  held-out loss {validate(model, held, args.batch, args.context):.3f}", flush=True)
    torch.save(model.state_dict(), "/tmp/mixture_lm.pt")


if __name__ == "__main__":
    main()
