"""Denoising diffusion of dune fields (32 x 32 height maps), v-prediction, with a moving average of the weights.

The maps are simulated: asymmetric ridges along a wind direction, with defects and ripples.
"""
import copy
import json
import math
import os
import time
from dataclasses import asdict, dataclass

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


@dataclass
class Config:
    maps: int = 3000
    size: int = 32
    width: int = 32
    batch: int = 24
    steps: int = 240
    lr: float = 6e-4
    warmup: int = 40
    ema: float = 0.99
    timesteps: int = 400
    preview_every: int = 120
    preview_steps: int = 8
    out: str = "/tmp/dunes"


def simulate_dunes(n, size, seed):
    rng = np.random.default_rng(seed)
    u, v = np.meshgrid(np.linspace(0, 1, size), np.linspace(0, 1, size))
    maps = np.empty((n, 1, size, size), dtype=np.float32)
    wind = np.empty((n, 2), dtype=np.float32)
    for i in range(n):
        angle, waves = rng.uniform(-0.9, 0.9), rng.uniform(2, 5)
        s = u * math.cos(angle) + v * math.sin(angle)
        c = -u * math.sin(angle) + v * math.cos(angle)
        phase = waves * s + 0.25 * np.sin(2 * np.pi * (c * rng.uniform(0.5, 1.5) + rng.random()))
        saw = phase % 1.0
        ridge = np.where(saw < 0.7, saw / 0.7, (1 - saw) / 0.3)  # stoss and lee side
        ridge += 0.15 * np.sin(2 * np.pi * 9 * s + rng.random() * 6)
        maps[i, 0] = ridge - ridge.mean()
        wind[i] = angle, waves / 5
    return torch.from_numpy(maps / maps.std()), torch.from_numpy(wind)


def sinusoid(t, dim):
    freq = torch.exp(-math.log(10000.0) * torch.arange(dim // 2) / (dim // 2))
    arg = t[:, None] * freq[None] * 1000.0
    return torch.cat([arg.sin(), arg.cos()], dim=1)


class Block(nn.Module):
    def __init__(self, cin, cout, emb):
        super().__init__()
        self.norm1, self.conv1 = nn.GroupNorm(8, cin), nn.Conv2d(cin, cout, 3, padding=1)
        self.emb = nn.Linear(emb, 2 * cout)
        self.norm2, self.conv2 = nn.GroupNorm(8, cout), nn.Conv2d(cout, cout, 3, padding=1)
        self.skip = nn.Conv2d(cin, cout, 1) if cin != cout else nn.Identity()

    def forward(self, x, e):
        h = self.conv1(F.silu(self.norm1(x)))
        scale, shift = self.emb(e)[:, :, None, None].chunk(2, dim=1)
        h = self.conv2(F.silu(self.norm2(h) * (1 + scale) + shift))
        return self.skip(x) + h


class Attention(nn.Module):
    def __init__(self, width, heads=4):
        super().__init__()
        self.norm, self.heads = nn.GroupNorm(8, width), heads
        self.qkv, self.out = nn.Conv2d(width, 3 * width, 1), nn.Conv2d(width, width, 1)

    def forward(self, x):
        b, c, h, w = x.shape
        q, k, v = self.qkv(self.norm(x)).reshape(b, 3, self.heads, c // self.heads, h * w).transpose(-1, -2).unbind(1)
        y = F.scaled_dot_product_attention(q, k, v)
        return x + self.out(y.transpose(-1, -2).reshape(b, c, h, w))


class UNet(nn.Module):
    def __init__(self, w):
        super().__init__()
        e = 4 * w
        self.w = w
        self.embed = nn.Sequential(nn.Linear(w + 2, e), nn.SiLU(), nn.Linear(e, e), nn.SiLU())
        self.inp = nn.Conv2d(1, w, 3, padding=1)
        self.d1, self.d2, self.d3 = Block(w, w, e), Block(w, 2 * w, e), Block(2 * w, 2 * w, e)
        self.mid, self.att = Block(2 * w, 2 * w, e), Attention(2 * w)
        self.u3, self.u2, self.u1 = Block(4 * w, 2 * w, e), Block(4 * w, w, e), Block(2 * w, w, e)
        self.out = nn.Sequential(nn.GroupNorm(8, w), nn.SiLU(), nn.Conv2d(w, 1, 3, padding=1))

    def forward(self, x, t, cond):
        e = self.embed(torch.cat([sinusoid(t, self.w), cond], dim=1))
        a = self.d1(self.inp(x), e)
        b = self.d2(F.avg_pool2d(a, 2), e)
        c = self.d3(F.avg_pool2d(b, 2), e)
        m = self.att(self.mid(c, e))
        m = F.interpolate(self.u3(torch.cat([m, c], 1), e), scale_factor=2.0)
        m = F.interpolate(self.u2(torch.cat([m, b], 1), e), scale_factor=2.0)
        return self.out(self.u1(torch.cat([m, a], 1), e))


def alpha_sigma(t):
    return torch.cos(t * math.pi / 2)[:, None, None, None], torch.sin(t * math.pi / 2)[:, None, None, None]


class Ema:
    def __init__(self, model, decay):
        self.model, self.decay = copy.deepcopy(model).requires_grad_(False).eval(), decay

    @torch.no_grad()
    def update(self, model):
        for slow, fast in zip(self.model.parameters(), model.parameters()):
            slow.lerp_(fast, 1 - self.decay)


@torch.no_grad()
def sample(model, cond, size, steps):
    """DDIM with v-prediction."""
    x = torch.randn(len(cond), 1, size, size)
    times = torch.linspace(0.99, 0.0, steps + 1)
    for now, nxt in zip(times[:-1], times[1:]):
        a, s = alpha_sigma(now.repeat(len(cond)))
        v = model(x, now.repeat(len(cond)), cond)
        x0, eps = a * x - s * v, s * x + a * v
        a, s = alpha_sigma(nxt.repeat(len(cond)))
        x = a * x0 + s * eps
    return x


def main():
    cfg = Config()
    os.makedirs(cfg.out, exist_ok=True)
    json.dump(asdict(cfg), open(f"{cfg.out}/config.json", "w"))
    torch.manual_seed(2)
    rng = np.random.default_rng(4)
    maps, wind = simulate_dunes(cfg.maps, cfg.size, seed=1)
    model = UNet(cfg.width).to(memory_format=torch.channels_last)
    ema = Ema(model, cfg.ema)
    opt = torch.optim.AdamW(model.parameters(), lr=cfg.lr, weight_decay=0.01)
    print(f"{sum(p.numel() for p in model.parameters()) / 1e3:.0f}k parameters, {len(maps)} maps")

    history, begin = [], time.time()
    for step in range(1, cfg.steps + 1):
        for group in opt.param_groups:
            group["lr"] = cfg.lr * min(1.0, step / cfg.warmup)
        pick = torch.from_numpy(rng.choice(len(maps), cfg.batch, replace=False))
        x0, cond = maps[pick], wind[pick]
        t = (torch.randint(0, cfg.timesteps, (cfg.batch,)) + 0.5) / cfg.timesteps
        a, s = alpha_sigma(t)
        noise = torch.randn_like(x0)
        v = model(a * x0 + s * noise, t, cond)
        loss = F.mse_loss(v, a * noise - s * x0)
        opt.zero_grad()
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        ema.update(model)
        history.append(loss.item())
        print(f"step {step:4d}  loss {history[-1]:.4f}  norm {norm.item():.2f}  {time.time() - begin:6.1f} s")
        if step % cfg.preview_every == 0:
            images = sample(ema.model, wind[:8], cfg.size, cfg.preview_steps)
            np.save(f"{cfg.out}/preview_{step}.npy", images.numpy())
            torch.save({"model": model.state_dict(), "ema": ema.model.state_dict(), "opt": opt.state_dict()}, f"{cfg.out}/last.pt")
    print(f"mean loss of the last 50 steps {np.mean(history[-50:]):.4f}")


if __name__ == "__main__":
    main()
