"""Latent diffusion on reef quadrat photographs.

A small convolutional autoencoder is fitted first (or read from --autoencoder if the file is
there); the denoiser then learns to predict the noise in its latent space, conditioned on the
dominant substrate class of the quadrat.
"""
import argparse
import csv
import math
import os
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

SUBSTRATES = ["branching", "massive", "rubble", "turf", "sand"]


def make_quadrats(n, size, seed):
    """Synthetic quadrats: blobs of coral on a substrate with depth-dependent colour cast."""
    rng = np.random.default_rng(seed)
    yy, xx = np.mgrid[0:size, 0:size].astype(np.float32) / size
    images = np.empty((n, 3, size, size), dtype=np.uint8)
    labels = rng.integers(0, len(SUBSTRATES), n)
    for i in range(n):
        base = np.array([0.15, 0.35, 0.45]) + 0.08 * labels[i] * np.array([1.0, 0.4, -0.3])
        img = np.broadcast_to(base[:, None, None], (3, size, size)).astype(np.float32).copy()
        for _ in range(2 + int(labels[i])):
            cx, cy, r = rng.random(), rng.random(), 0.05 + 0.2 * rng.random()
            blob = np.exp(-((xx - cx) ** 2 + (yy - cy) ** 2) / (r * r))
            img += rng.uniform(-0.4, 0.5, 3).astype(np.float32)[:, None, None] * blob
        img += rng.normal(0, 0.03, img.shape).astype(np.float32)
        images[i] = (img.clip(0, 1) * 255).astype(np.uint8)
    return torch.from_numpy(images), torch.from_numpy(labels)


def block(cin, cout, stride=1):
    return nn.Sequential(nn.Conv2d(cin, cout, 3, stride, 1), nn.GroupNorm(4, cout), nn.SiLU())


class AutoEncoder(nn.Module):
    def __init__(self, width=40, zdim=4):
        super().__init__()
        w = width
        self.encoder = nn.Sequential(block(3, w), block(w, w, 2), block(w, 2 * w), block(2 * w, 2 * w, 2),
                                     block(2 * w, 2 * w), nn.Conv2d(2 * w, zdim, 3, 1, 1))
        self.decoder = nn.Sequential(block(zdim, 2 * w), nn.Upsample(scale_factor=2), block(2 * w, w),
                                     nn.Upsample(scale_factor=2), nn.Conv2d(w, 3, 3, 1, 1))

    def encode(self, x):
        return self.encoder(x)

    def forward(self, x):
        return self.decoder(self.encoder(x))


def to_float(x):
    return x.float().div_(127.5).sub_(1.0)


def get_autoencoder(path, images, steps=8):
    ae = AutoEncoder()
    if path and os.path.exists(path):
        ae.load_state_dict(torch.load(path))
    else:
        opt = torch.optim.Adam(ae.parameters(), 2e-3)
        for _ in range(steps):
            x = to_float(images[torch.randint(len(images), (8,))])
            loss = F.mse_loss(ae(x), x)
            opt.zero_grad()
            loss.backward()
            opt.step()
    return ae.eval().requires_grad_(False)


class ResBlock(nn.Module):
    def __init__(self, c, emb):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(c, c, 3, 1, 1), nn.Conv2d(c, c, 3, 1, 1)
        self.norm1, self.norm2 = nn.GroupNorm(8, c), nn.GroupNorm(8, c)
        self.proj = nn.Linear(emb, c)

    def forward(self, x, e):
        h = self.conv1(F.silu(self.norm1(x))) + self.proj(e)[:, :, None, None]
        return x + self.conv2(F.silu(self.norm2(h)))


class Denoiser(nn.Module):
    def __init__(self, zdim=4, c=32, emb=96, classes=len(SUBSTRATES)):
        super().__init__()
        self.emb = emb
        self.time = nn.Sequential(nn.Linear(emb, emb), nn.SiLU(), nn.Linear(emb, emb))
        self.label = nn.Embedding(classes + 1, emb)
        self.inp = nn.Conv2d(zdim, c, 3, 1, 1)
        self.top, self.down = ResBlock(c, emb), nn.Conv2d(c, 2 * c, 3, 2, 1)
        self.mid1, self.mid2 = ResBlock(2 * c, emb), ResBlock(2 * c, emb)
        self.up, self.last = nn.Conv2d(2 * c, c, 3, 1, 1), ResBlock(c, emb)
        self.out = nn.Conv2d(c, zdim, 3, 1, 1)

    def forward(self, z, t, y):
        f = torch.exp(-math.log(1e4) * torch.arange(self.emb // 2) / (self.emb // 2))
        a = t[:, None].float() * f[None]
        e = F.silu(self.time(torch.cat([a.sin(), a.cos()], 1)) + self.label(y))
        h0 = self.top(self.inp(z), e)
        h = self.mid2(self.mid1(self.down(h0), e), e)
        h = h0 + self.up(F.interpolate(h, scale_factor=2))
        return self.out(self.last(h, e))


@torch.no_grad()
def ema_update(ema, model, decay):
    torch._foreach_lerp_(list(ema.parameters()), list(model.parameters()), 1 - decay)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--quadrats", type=int, default=768)
    p.add_argument("--size", type=int, default=64)
    p.add_argument("--batch", type=int, default=24)
    p.add_argument("--steps", type=int, default=500)
    p.add_argument("--lr", type=float, default=3e-4)
    p.add_argument("--timesteps", type=int, default=1000)
    p.add_argument("--drop-label", type=float, default=0.1)
    p.add_argument("--autoencoder", default="")
    p.add_argument("--log-every", type=int, default=25)
    p.add_argument("--save", default="")
    p.add_argument("--seed", type=int, default=3)
    args = p.parse_args()
    torch.manual_seed(args.seed)

    images, labels = make_quadrats(args.quadrats, args.size, args.seed)
    ae = get_autoencoder(args.autoencoder, images)
    with torch.no_grad():
        scale = 1.0 / ae.encode(to_float(images[:64])).std()
        latents = torch.cat([ae.encode(to_float(x)) for x in images.split(args.batch)]) * scale

    model, ema = Denoiser(), Denoiser()
    ema.load_state_dict(model.state_dict())
    opt = torch.optim.AdamW(model.parameters(), args.lr, weight_decay=1e-4)
    sched = torch.optim.lr_scheduler.LambdaLR(opt, lambda s: min(1.0, (s + 1) / 50))
    abar = torch.cos((torch.linspace(0, 1, args.timesteps) + 0.008) / 1.008 * math.pi / 2) ** 2

    rows, running, step, start = [], 0.0, 0, time.time()
    while step < args.steps:
        for idx in torch.randperm(len(images)).split(args.batch):
            y = labels[idx]
            z = latents[idx]
            t = torch.randint(args.timesteps, (len(idx),))
            noise = torch.randn_like(z)
            a = abar[t][:, None, None, None]
            zt = a.sqrt() * z + (1 - a).sqrt() * noise
            y = torch.where(torch.rand(len(idx)) < args.drop_label, len(SUBSTRATES), y)
            loss = F.mse_loss(model(zt, t, y), noise)
            opt.zero_grad(set_to_none=True)
            loss.backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            opt.step()
            sched.step()
            ema_update(ema, model, 0.995)
            running += loss.detach()
            step += 1
            if step % args.log_every == 0:
                rows.append((step, float(running) / args.log_every))
                running = 0.0
                print(f"step {step:5d}  loss {rows[-1][1]:.5f}  {step / (time.time() - start):.2f} it/s", flush=True)
            if step >= args.steps:
                break

    if args.save:
        os.makedirs(args.save, exist_ok=True)
        torch.save({"model": model.state_dict(), "ema": ema.state_dict()}, os.path.join(args.save, "denoiser.pt"))
        with open(os.path.join(args.save, "loss.csv"), "w", newline="") as f:
            csv.writer(f).writerows([("step", "loss"), *rows])


if __name__ == "__main__":
    main()
