"""Denoising diffusion on short hand-motion clips (frames x joint angles).

Predicts the noise with a small transformer; keeps an EMA copy for sampling.
"""
import argparse
import copy
import logging
import math
import os
import tempfile
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

log = logging.getLogger("motion")


def make_clips(n, frames, joints, seed):
    """Sums of a few joint-coupled sinusoids, standardised per joint."""
    g = torch.Generator().manual_seed(seed)
    t = torch.linspace(0, 1, frames).view(1, 1, frames)
    freq = 0.5 + 3.5 * torch.rand(n, 4, 1, generator=g)
    phase = 2 * math.pi * torch.rand(n, 4, 1, generator=g)
    basis = torch.sin(2 * math.pi * freq * t + phase)
    mix = torch.randn(4, joints, generator=g) / 2
    clips = torch.einsum("nkf,kj->nfj", basis, mix)
    return (clips - clips.mean((0, 1))) / clips.std((0, 1))


class NoiseSchedule(nn.Module):
    def __init__(self, steps):
        super().__init__()
        s = torch.arange(steps + 1, dtype=torch.float64) / steps
        f = torch.cos((s + 0.008) / 1.008 * math.pi / 2) ** 2
        betas = (1 - f[1:] / f[:-1]).clamp(max=0.999)
        abar = torch.cumprod(1 - betas, 0)
        self.steps = steps
        self.register_buffer("signal", abar.sqrt().float())
        self.register_buffer("noise", (1 - abar).sqrt().float())

    def add_noise(self, x, eps, t):
        return self.signal[t].view(-1, 1, 1) * x + self.noise[t].view(-1, 1, 1) * eps


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.norm1 = nn.LayerNorm(dim)
        self.norm2 = nn.LayerNorm(dim)
        self.qkv = nn.Linear(dim, 3 * dim)
        self.proj = nn.Linear(dim, dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.SiLU(), nn.Linear(4 * dim, dim))

    def forward(self, x):
        b, n, d = x.shape
        qkv = self.qkv(self.norm1(x)).view(b, n, 3, self.heads, d // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        a = F.scaled_dot_product_attention(q, k, v)
        x = x + self.proj(a.transpose(1, 2).reshape(b, n, d))
        return x + self.mlp(self.norm2(x))


class Denoiser(nn.Module):
    def __init__(self, frames, joints, dim, depth, heads):
        super().__init__()
        self.inp = nn.Linear(joints, dim)
        self.pos = nn.Parameter(0.02 * torch.randn(1, frames, dim))
        self.time = nn.Sequential(nn.Linear(dim, dim), nn.SiLU(), nn.Linear(dim, dim))
        freqs = torch.exp(-math.log(1e4) * torch.arange(dim // 2) / (dim // 2))
        self.register_buffer("freqs", freqs, persistent=False)
        self.blocks = nn.ModuleList(Block(dim, heads) for _ in range(depth))
        self.norm = nn.LayerNorm(dim)
        self.out = nn.Linear(dim, joints)
        nn.init.zeros_(self.out.weight)

    def forward(self, x, t):
        arg = t[:, None].float() * self.freqs
        temb = self.time(torch.cat([arg.sin(), arg.cos()], dim=-1))
        h = self.inp(x) + self.pos + temb[:, None]
        for block in self.blocks:
            h = block(h)
        return self.out(self.norm(h))


class Ema:
    def __init__(self, model, decay):
        self.model = copy.deepcopy(model).requires_grad_(False).eval()
        self.decay = decay
        self.src = list(model.parameters())
        self.dst = list(self.model.parameters())

    @torch.no_grad()
    def update(self):
        torch._foreach_lerp_(self.dst, self.src, 1 - self.decay)


@torch.inference_mode()
def eval_loss(model, schedule, clips, seed=0):
    g = torch.Generator().manual_seed(seed)
    t = torch.randint(schedule.steps, (len(clips),), generator=g)
    eps = torch.randn(clips.shape, generator=g)
    return F.mse_loss(model(schedule.add_noise(clips, eps, t), t), eps).item()


def main():
    ap = argparse.ArgumentParser(description=__doc__)
    ap.add_argument("--clips", type=int, default=8192)
    ap.add_argument("--frames", type=int, default=48)
    ap.add_argument("--joints", type=int, default=20)
    ap.add_argument("--dim", type=int, default=128)
    ap.add_argument("--depth", type=int, default=3)
    ap.add_argument("--heads", type=int, default=4)
    ap.add_argument("--diffusion-steps", type=int, default=500)
    ap.add_argument("--steps", type=int, default=600)
    ap.add_argument("--batch-size", type=int, default=32)
    ap.add_argument("--lr", type=float, default=6e-4)
    ap.add_argument("--warmup", type=int, default=40)
    ap.add_argument("--eval-every", type=int, default=200)
    ap.add_argument("--log-every", type=int, default=50)
    ap.add_argument("--seed", type=int, default=5)
    args = ap.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    torch.manual_seed(args.seed)

    clips = make_clips(args.clips + 64, args.frames, args.joints, args.seed)
    train, held_out = clips[:-64], clips[-64:]
    schedule = NoiseSchedule(args.diffusion_steps)
    model = Denoiser(args.frames, args.joints, args.dim, args.depth, args.heads)
    ema = Ema(model, 0.995)
    opt = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=0.01, fused=True)
    sched = torch.optim.lr_scheduler.LambdaLR(opt, lambda s: min(1.0, (s + 1) / args.warmup))
    out = tempfile.mkdtemp(prefix="motion_")
    log.info("%.2fM parameters", sum(p.numel() for p in model.parameters()) / 1e6)

    spent, tic = 0.0, time.perf_counter()
    order = torch.randperm(len(train))
    cursor = 0
    for step in range(1, args.steps + 1):
        if cursor + args.batch_size > len(order):
            order, cursor = torch.randperm(len(train)), 0
        x = train[order[cursor:cursor + args.batch_size]]
        cursor += args.batch_size
        t = torch.randint(schedule.steps, (len(x),))
        eps = torch.randn_like(x)
        loss = F.mse_loss(model(schedule.add_noise(x, eps, t), t), eps)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        opt.step()
        sched.step()
        ema.update()
        if step % args.log_every == 0:
            log.info("step %d loss %.4f grad norm %.3f", step, loss.item(), norm.item())
        if step % args.eval_every == 0:
            spent += time.perf_counter() - tic
            log.info("held-out loss (ema) %.4f", eval_loss(ema.model, schedule, held_out))
            tic = time.perf_counter()
    spent += time.perf_counter() - tic
    torch.save(ema.model.state_dict(), os.path.join(out, "ema.pt"))
    log.info("%d steps, %.1f ms per step", args.steps, 1000 * spent / args.steps)


if __name__ == "__main__":
    main()
