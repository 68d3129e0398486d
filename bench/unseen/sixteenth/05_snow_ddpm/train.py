"""Denoising diffusion of snow crystal silhouettes, conditioned on temperature and humidity class."""
import argparse
import copy
import json
import math
import time
from pathlib import Path

import torch
import torch.nn as nn
import torch.nn.functional as F

HABITS = ["plate", "star", "dendrite", "needle"]


def make_crystals(n, size, gen):
    """Six-fold silhouettes from a radius that depends on the angle; habits differ in its harmonics."""
    habit = torch.randint(0, len(HABITS), (n,), generator=gen)
    axis = torch.linspace(-1, 1, size)
    yy, xx = torch.meshgrid(axis, axis, indexing="ij")
    radius, angle = torch.hypot(xx, yy), torch.atan2(yy, xx)
    turn = torch.rand(n, 1, 1, generator=gen) * math.pi / 3
    scale = 0.55 + 0.3 * torch.rand(n, 1, 1, generator=gen)
    sharp = torch.tensor([0.05, 0.35, 0.55, 0.0])[habit][:, None, None]
    fold = torch.tensor([6.0, 6.0, 12.0, 2.0])[habit][:, None, None]
    edge = scale * (1 - sharp + sharp * torch.cos(fold * (angle - turn)))
    needle = (habit == 3)[:, None, None]
    across = torch.abs(xx * torch.sin(turn) - yy * torch.cos(turn))
    depth = torch.where(needle, torch.minimum(0.12 - across, scale - radius), edge - radius)
    return (torch.sigmoid(25 * depth) * 2 - 1).unsqueeze(1), habit


class Block(nn.Module):
    def __init__(self, cin, cout, emb):
        super().__init__()
        self.norm1, self.conv1 = nn.GroupNorm(8, cin), nn.Conv2d(cin, cout, 3, padding=1)
        self.norm2, self.conv2 = nn.GroupNorm(8, cout), nn.Conv2d(cout, cout, 3, padding=1)
        self.emb = nn.Linear(emb, 2 * cout)
        self.skip = nn.Conv2d(cin, cout, 1) if cin != cout else nn.Identity()

    def forward(self, x, emb):
        h = self.conv1(F.silu(self.norm1(x)))
        scale, shift = self.emb(emb)[:, :, None, None].chunk(2, dim=1)
        h = self.norm2(h) * (1 + scale) + shift
        return self.skip(x) + self.conv2(F.silu(h))


class UNet(nn.Module):
    def __init__(self, width, n_classes, emb=128):
        super().__init__()
        self.register_buffer("freqs", torch.exp(torch.linspace(0, math.log(1000.0), 32)), persistent=False)
        self.time = nn.Sequential(nn.Linear(64, emb), nn.SiLU(), nn.Linear(emb, emb))
        self.label = nn.Embedding(n_classes, emb)
        self.inp = nn.Conv2d(1, width, 3, padding=1)
        self.down1 = Block(width, width, emb)
        self.pool1 = nn.Conv2d(width, 2 * width, 3, stride=2, padding=1)
        self.down2 = Block(2 * width, 2 * width, emb)
        self.pool2 = nn.Conv2d(2 * width, 3 * width, 3, stride=2, padding=1)
        self.mid = Block(3 * width, 3 * width, emb)
        self.up2 = Block(5 * width, 2 * width, emb)
        self.up1 = Block(3 * width, width, emb)
        self.out = nn.Sequential(nn.GroupNorm(8, width), nn.SiLU(), nn.Conv2d(width, 1, 3, padding=1))

    def forward(self, x, t, label):
        phase = t[:, None] * self.freqs
        emb = F.silu(self.time(torch.cat([phase.sin(), phase.cos()], dim=1)) + self.label(label))
        a = self.down1(self.inp(x), emb)
        b = self.down2(self.pool1(a), emb)
        c = self.mid(self.pool2(b), emb)
        b = self.up2(torch.cat([F.interpolate(c, scale_factor=2.0), b], dim=1), emb)
        a = self.up1(torch.cat([F.interpolate(b, scale_factor=2.0), a], dim=1), emb)
        return self.out(a)


class Diffusion:
    """Cosine schedule in continuous time, v-prediction, deterministic sampler."""

    @staticmethod
    def coefficients(t):
        angle = 0.5 * math.pi * t.clamp(0.002, 0.998)
        return angle.cos()[:, None, None, None], angle.sin()[:, None, None, None]

    def loss(self, model, x, label, t, noise):
        alpha, sigma = self.coefficients(t)
        v = model(alpha * x + sigma * noise, t, label)
        return F.mse_loss(v, alpha * noise - sigma * x)

    @torch.no_grad()
    def sample(self, model, x, label, steps):
        grid = torch.linspace(1, 0, steps + 1)
        for now, after in zip(grid[:-1], grid[1:]):
            t = now.expand(len(x))
            alpha, sigma = self.coefficients(t)
            v = model(x, t, label)
            clean, eps = alpha * x - sigma * v, sigma * x + alpha * v
            alpha, sigma = self.coefficients(after.expand(len(x)))
            x = alpha * clean + sigma * eps
        return clean


class Trainer:
    def __init__(self, args):
        self.args = args
        self.out = Path(args.out)
        self.out.mkdir(parents=True, exist_ok=True)
        gen = torch.Generator().manual_seed(args.seed)
        self.images, self.habits = make_crystals(args.crystals, args.size, gen)
        self.val_images, self.val_habits = make_crystals(256, args.size, gen)
        self.val_t = torch.linspace(0.02, 0.98, 256)
        self.val_noise = torch.randn(self.val_images.shape, generator=gen)
        self.gen = gen
        torch.manual_seed(args.seed)
        self.model = UNet(args.width, len(HABITS))
        self.ema = copy.deepcopy(self.model).eval().requires_grad_(False)
        self.params, self.ema_params = list(self.model.parameters()), list(self.ema.parameters())
        self.opt = torch.optim.AdamW(self.params, lr=args.lr, weight_decay=0.01)
        warm = lambda s: min(1.0, (s + 1) / 50) * 0.5 * (1 + math.cos(math.pi * s / args.steps))
        self.sched = torch.optim.lr_scheduler.LambdaLR(self.opt, warm)
        self.diffusion = Diffusion()
        self.step = 0

    def batches(self):
        n, size = len(self.images), self.args.batch_size
        while True:
            order = torch.randperm(n, generator=self.gen)
            for lo in range(0, n - size + 1, size):
                pick = order[lo:lo + size]
                yield self.images[pick], self.habits[pick]

    def train_step(self, x, label):
        t = torch.rand(len(x), generator=self.gen)
        noise = torch.randn(x.shape, generator=self.gen)
        loss = self.diffusion.loss(self.model, x, label, t, noise)
        self.opt.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(self.params, 1.0)
        self.opt.step()
        self.sched.step()
        with torch.no_grad():
            decay = min(self.args.ema, (1 + self.step) / (10 + self.step))
            torch._foreach_lerp_(self.ema_params, self.params, 1 - decay)
        return loss.detach()

    @torch.no_grad()
    def validate(self):
        return self.diffusion.loss(self.ema, self.val_images, self.val_habits, self.val_t, self.val_noise).item()

    def save(self):
        torch.save({"ema": self.ema.state_dict(), "model": self.model.state_dict(), "opt": self.opt.state_dict(),
                    "step": self.step}, self.out / "last.pt")
        label = torch.arange(len(HABITS)).repeat(2)
        noise = torch.randn(len(label), 1, self.args.size, self.args.size, generator=self.gen)
        torch.save(self.diffusion.sample(self.ema, noise, label, 12), self.out / f"samples_{self.step:05d}.pt")

    def fit(self):
        args, started = self.args, time.time()
        total = torch.zeros(())
        with open(self.out / "log.jsonl", "w") as log:
            for x, label in self.batches():
                total += self.train_step(x, label)
                self.step += 1
                if self.step % args.log_every == 0:
                    row = {"step": self.step, "loss": round(total.item() / args.log_every, 5),
                           "seconds": round(time.time() - started, 1)}
                    total.zero_()
                    if self.step % args.val_every == 0:
                        row["val_loss"] = round(self.validate(), 5)
                        self.save()
                    log.write(json.dumps(row) + "\n")
                    print(row, flush=True)
                if self.step >= args.steps:
                    return


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("--crystals", type=int, default=6000)
    p.add_argument("--size", type=int, default=32)
    p.add_argument("--width", type=int, default=16)
    p.add_argument("--batch-size", type=int, default=24)
    p.add_argument("--steps", type=int, default=450)
    p.add_argument("--lr", type=float, default=1e-3)
    p.add_argument("--ema", type=float, default=0.995)
    p.add_argument("--log-every", type=int, default=25)
    p.add_argument("--val-every", type=int, default=225)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--out", default="runs_snow")
    Trainer(p.parse_args()).fit()
