"""Scenario generator for daily electricity load: a diffusion model over 96 quarter hours, given the day's conditions.

The network predicts v; a slow copy of the weights is used for sampling. python train.py --help
"""
import argparse
import copy
import json
import math
import os
import tempfile
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

QUARTERS = 96


def simulate_days(n, zones, seed):
    rng = np.random.default_rng(seed)
    h = np.arange(QUARTERS) / 4
    weekend = (rng.random(n) < 2 / 7).astype(np.float32)
    temp = rng.normal(10, 9, n).astype(np.float32)
    season = rng.uniform(0, 2 * np.pi, n)
    base = 0.6 + 0.25 * np.exp(-((h - 8) / 2.0) ** 2) + 0.4 * np.exp(-((h - 19) / 2.5) ** 2)
    lazy = 0.65 + 0.25 * np.exp(-((h - 11) / 3.5) ** 2) + 0.3 * np.exp(-((h - 20) / 2.5) ** 2)
    shape = np.where(weekend[:, None] > 0, lazy, base)
    heat = np.abs(temp - 18)[:, None] / 30 * (1 + 0.3 * np.cos(2 * np.pi * (h - 7) / 24))
    solar = np.clip(np.sin(np.pi * (h - 6) / 12), 0, None) * rng.beta(2, 2, (n, 1)) * (0.4 + 0.2 * np.cos(season))[:, None]
    scale = rng.uniform(0.7, 1.3, (1, zones, 1)) * rng.normal(1, 0.05, (n, zones, 1))
    load = scale * (shape + heat - solar)[:, None] + rng.normal(0, 0.03, (n, zones, QUARTERS))
    cond = np.stack([weekend, (temp - 10) / 9, np.sin(season), np.cos(season)], 1)
    load = (load - load.mean((0, 2), keepdims=True)) / load.std((0, 2), keepdims=True)
    return torch.from_numpy(load.astype(np.float32)), torch.from_numpy(cond.astype(np.float32))


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(dim, elementwise_affine=False)
        self.norm2 = nn.LayerNorm(dim, elementwise_affine=False)
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.ReLU(inplace=True), nn.Linear(4 * dim, dim))
        self.modulate = nn.Linear(dim, 6 * dim)
        nn.init.zeros_(self.modulate.weight)
        nn.init.zeros_(self.modulate.bias)

    def forward(self, x, c):
        b, t, d = x.shape
        s1, m1, g1, s2, m2, g2 = self.modulate(c)[:, None].chunk(6, dim=-1)
        h = torch.addcmul(s1, self.norm1(x), 1 + m1)
        q, k, v = self.qkv(h).view(b, t, 3, self.heads, d // self.heads).permute(2, 0, 3, 1, 4)
        weight = (q * (d // self.heads) ** -0.5 @ k.transpose(-1, -2)).softmax(-1)
        h = (weight.to(v.dtype) @ v).transpose(1, 2).reshape(b, t, d)
        x = torch.addcmul(x, g1, self.proj(h))
        h = torch.addcmul(s2, self.norm2(x), 1 + m2)
        return torch.addcmul(x, g2, self.mlp(h))


class LoadDenoiser(nn.Module):
    """Tokens are stretches of `patch` quarter hours of all zones."""

    def __init__(self, zones, n_cond, patch=4, dim=256, heads=4, depth=4):
        super().__init__()
        self.zones, self.patch, self.dim = zones, patch, dim
        self.embed = nn.Linear(zones * patch, dim)
        self.position = nn.Parameter(torch.randn(QUARTERS // patch, dim) * 0.02)
        self.cond = nn.Sequential(nn.Linear(n_cond + 64, dim), nn.SiLU(), nn.Linear(dim, dim), nn.SiLU())
        self.blocks = nn.ModuleList(Block(dim, heads) for _ in range(depth))
        self.norm = nn.LayerNorm(dim)
        self.out = nn.Linear(dim, zones * patch)
        self.register_buffer("freq", torch.exp(torch.linspace(0, math.log(200), 32)), persistent=False)

    def forward(self, x, t, cond):
        b = len(x)
        angle = t[:, None] * self.freq
        c = self.cond(torch.cat([cond, angle.sin(), angle.cos()], dim=-1))
        tokens = x.view(b, self.zones, -1, self.patch).transpose(1, 2).reshape(b, -1, self.zones * self.patch)
        h = self.embed(tokens) + self.position
        for block in self.blocks:
            h = block(h, c)
        h = self.out(self.norm(h))
        return h.view(b, -1, self.zones, self.patch).transpose(1, 2).reshape(b, self.zones, QUARTERS)


def diffusion_loss(model, x, cond, generator=None):
    t = torch.rand(len(x), generator=generator)
    a, s = torch.cos(t * math.pi / 2)[:, None, None], torch.sin(t * math.pi / 2)[:, None, None]
    noise = torch.randn(x.shape, generator=generator)
    with torch.autocast("cpu", torch.bfloat16):
        v = model(a * x + s * noise, t, cond)
    return F.mse_loss(v.float(), a * noise - s * x)


@torch.no_grad()
def sample(model, cond, zones, steps=12):
    x = torch.randn(len(cond), zones, QUARTERS)
    times = torch.linspace(0.99, 0.0, steps + 1)
    for now, then in zip(times[:-1], times[1:]):
        with torch.autocast("cpu", torch.bfloat16):
            v = model(x, now.expand(len(x)), cond).float()
        a, s = torch.cos(now * math.pi / 2), torch.sin(now * math.pi / 2)
        clean, noise = a * x - s * v, s * x + a * v
        x = torch.cos(then * math.pi / 2) * clean + torch.sin(then * math.pi / 2) * noise
    return x


@torch.no_grad()
def evaluate(model, load, cond, zones):
    gen = torch.Generator().manual_seed(0)
    loss = sum(diffusion_loss(model, x, c, gen) * len(x) for x, c in zip(load.split(128), cond.split(128))) / len(load)
    drawn = sample(model, cond[:64], zones)
    real = load[:64]
    return loss.item(), (drawn.mean(0) - real.mean(0)).abs().mean().item()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=4)
    ap.add_argument("--days", type=int, default=3840)
    ap.add_argument("--zones", type=int, default=8)
    ap.add_argument("--batch-size", type=int, default=64)
    ap.add_argument("--lr", type=float, default=5e-4)
    ap.add_argument("--decay", type=float, default=0.99)
    ap.add_argument("--out", default=os.path.join(tempfile.gettempdir(), "load_diffusion.pt"))
    args = ap.parse_args()

    torch.manual_seed(0)
    load, cond = simulate_days(args.days + 256, args.zones, seed=0)
    load, val_load = load[:args.days], load[args.days:]
    cond, val_cond = cond[:args.days], cond[args.days:]

    model = LoadDenoiser(args.zones, cond.shape[1])
    slow = copy.deepcopy(model).requires_grad_(False).eval()
    params, slow_params = list(model.parameters()), list(slow.parameters())
    opt = torch.optim.AdamW(params, lr=args.lr, weight_decay=0.01, fused=True)
    per_epoch = args.days // args.batch_size
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, args.lr, total_steps=args.epochs * per_epoch)

    for epoch in range(args.epochs):
        start, running = time.perf_counter(), torch.zeros(())
        order = torch.randperm(args.days)[:per_epoch * args.batch_size].view(per_epoch, -1)
        for index in order:
            loss = diffusion_loss(model, load[index], cond[index])
            opt.zero_grad(set_to_none=True)
            loss.backward()
            opt.step()
            sched.step()
            torch._foreach_lerp_(slow_params, [p.detach() for p in params], 1 - args.decay)
            running += loss.detach()
        val, gap = evaluate(slow, val_load, val_cond, args.zones)
        print(json.dumps({"epoch": epoch, "train": round(running.item() / per_epoch, 4), "val": round(val, 4),
                          "mean_gap": round(gap, 4), "seconds": round(time.perf_counter() - start, 1)}), flush=True)
    torch.save({"model": model.state_dict(), "slow": slow.state_dict()}, args.out)


if __name__ == "__main__":
    main()
