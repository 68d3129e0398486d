"""Denoising diffusion on the 8x8 digits (upsampled to 16x16), classifier-free labels, EMA weights."""
import argparse
import math
import pathlib
import tempfile
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from PIL import Image
from sklearn.datasets import load_digits
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn


def get_args():
    p = argparse.ArgumentParser()
    p.add_argument("--steps", type=int, default=400)
    p.add_argument("--batch", type=int, default=64)
    p.add_argument("--T", type=int, default=200)
    p.add_argument("--width", type=int, default=32)
    p.add_argument("--lr", type=float, default=2e-3)
    p.add_argument("--ema", type=float, default=0.995)
    return p.parse_args()


class ResBlock(nn.Module):
    def __init__(self, cin, cout, emb):
        super().__init__()
        self.n1, self.c1 = nn.GroupNorm(8, cin), nn.Conv2d(cin, cout, 3, padding=1)
        self.n2, self.c2 = nn.GroupNorm(8, cout), nn.Conv2d(cout, cout, 3, padding=1)
        self.emb = nn.Linear(emb, cout)
        self.skip = nn.Conv2d(cin, cout, 1) if cin != cout else nn.Identity()

    def forward(self, x, e):
        h = self.c1(F.silu(self.n1(x))) + self.emb(e)[:, :, None, None]
        return self.skip(x) + self.c2(F.silu(self.n2(h)))


class Denoiser(nn.Module):
    def __init__(self, w, emb=96):
        super().__init__()
        self.register_buffer("freqs", torch.exp(-math.log(10000) * torch.arange(16) / 16))
        self.time = nn.Sequential(nn.Linear(32, emb), nn.SiLU(), nn.Linear(emb, emb))
        self.label = nn.Embedding(11, emb)
        self.inp = nn.Conv2d(1, w, 3, padding=1)
        self.down = ResBlock(w, w, emb)
        self.pool = nn.Conv2d(w, 2 * w, 3, stride=2, padding=1)
        self.mid = nn.ModuleList([ResBlock(2 * w, 2 * w, emb) for _ in range(2)])
        self.up = ResBlock(3 * w, w, emb)
        self.out = nn.Conv2d(w, 1, 3, padding=1)

    def forward(self, x, t, y):
        a = t[:, None].float() * self.freqs
        e = F.silu(self.time(torch.cat([a.sin(), a.cos()], 1)) + self.label(y))
        h = self.down(self.inp(x), e)
        m = self.pool(h)
        for block in self.mid:
            m = block(m, e)
        return self.out(self.up(torch.cat([F.interpolate(m, scale_factor=2.0), h], 1), e))


class Diffusion:
    def __init__(self, T):
        s = torch.linspace(0, 1, T + 1)
        f = torch.cos((s + 0.01) / 1.01 * math.pi / 2) ** 2
        self.abar = (f / f[0])[1:].clamp(min=1e-4)
        self.T = T

    def noisy(self, x0, t, eps):
        a = self.abar[t][:, None, None, None]
        return a.sqrt() * x0 + (1 - a).sqrt() * eps

    @torch.no_grad()
    def sample(self, net, labels, steps=25):
        x = torch.randn(len(labels), 1, 16, 16)
        ts = torch.linspace(self.T - 1, 0, steps).long()
        for i, t in enumerate(ts):
            a = self.abar[t]
            eps = net(x, t.expand(len(x)), labels)
            x0 = ((x - (1 - a).sqrt() * eps) / a.sqrt()).clamp(-1.2, 1.2)
            prev = self.abar[ts[i + 1]] if i + 1 < steps else torch.tensor(1.0)
            x = prev.sqrt() * x0 + (1 - prev).sqrt() * eps
        return x


def main():
    args = get_args()
    torch.manual_seed(0)
    digits = load_digits()
    images = torch.from_numpy(digits.images).float()[:, None] / 8 - 1
    images = F.interpolate(images, size=16, mode="bilinear")
    labels = torch.from_numpy(digits.target).long()
    net, diff = Denoiser(args.width), Diffusion(args.T)
    ema = AveragedModel(net, multi_avg_fn=get_ema_multi_avg_fn(args.ema))
    opt = torch.optim.AdamW(net.parameters(), lr=args.lr, fused=True)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, args.steps)
    print(f"{len(images)} images, {sum(p.numel() for p in net.parameters()) / 1e3:.0f}k parameters")
    running, t0 = torch.zeros(()), time.time()
    for step in range(1, args.steps + 1):
        idx = torch.randint(len(images), (args.batch,))
        x0, y = images[idx], labels[idx]
        y = torch.where(torch.rand(args.batch) < 0.1, 10, y)
        t = torch.randint(args.T, (args.batch,))
        eps = torch.randn_like(x0)
        loss = F.mse_loss(net(diff.noisy(x0, t, eps), t, y), eps)
        opt.zero_grad(set_to_none=True)
        loss.backward()
        opt.step()
        sched.step()
        ema.update_parameters(net)
        running += loss.detach()
        if step % 50 == 0:
            print(f"step {step} loss {running.item() / 50:.4f} {step / (time.time() - t0):.1f} it/s", flush=True)
            running.zero_()
    ema.eval()
    grid = diff.sample(ema, torch.arange(10).repeat(2))
    sheet = ((grid.clamp(-1, 1) + 1) * 127.5).byte().view(2, 10, 16, 16).permute(0, 2, 1, 3).reshape(32, 160)
    out = pathlib.Path(tempfile.mkdtemp(prefix="ddpm_")) / "samples.png"
    Image.fromarray(np.asarray(sheet)).save(out)
    print("samples:", out)


if __name__ == "__main__":
    main()
