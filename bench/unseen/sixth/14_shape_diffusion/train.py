"""Denoising diffusion on simple shapes, with an EMA copy and resumable state."""
import argparse
import copy
import hashlib
import os
import tempfile
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

torch.set_num_threads(1)


def make_shapes(n, size, gen):
    yy, xx = torch.meshgrid(torch.linspace(-1, 1, size), torch.linspace(-1, 1, size), indexing="ij")
    cx, cy = (torch.rand(2, n, 1, 1, generator=gen) - 0.5)
    r = 0.2 + 0.4 * torch.rand(n, 1, 1, generator=gen)
    kind = torch.randint(3, (n, 1, 1), generator=gen)
    dx, dy = (xx - cx).abs(), (yy - cy).abs()
    disc = (dx ** 2 + dy ** 2).sqrt() < r
    square = torch.maximum(dx, dy) < r
    diamond = dx + dy < r
    img = torch.where(kind == 0, disc, torch.where(kind == 1, square, diamond)).float()
    return (img * 2 - 1).unsqueeze(1)


class ResBlock(nn.Module):
    def __init__(self, cin, cout, t_dim):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(cin, cout, 3, padding=1), nn.Conv2d(cout, cout, 3, padding=1)
        self.norm1, self.norm2 = nn.GroupNorm(8, cout), nn.GroupNorm(8, cout)
        self.time = nn.Linear(t_dim, cout)
        self.skip = nn.Conv2d(cin, cout, 1) if cin != cout else nn.Identity()

    def forward(self, x, t):
        h = F.silu(self.norm1(self.conv1(x)) + self.time(t)[:, :, None, None])
        return self.skip(x) + F.silu(self.norm2(self.conv2(h)))


class UNet(nn.Module):
    def __init__(self, w, t_dim=128):
        super().__init__()
        self.register_buffer("freq", torch.exp(torch.linspace(0, -9, 32)))
        self.time = nn.Sequential(nn.Linear(64, t_dim), nn.SiLU(), nn.Linear(t_dim, t_dim))
        self.inp = nn.Conv2d(1, w, 3, padding=1)
        self.down1, self.down2 = ResBlock(w, w, t_dim), ResBlock(w, 2 * w, t_dim)
        self.mid = ResBlock(2 * w, 8 * w, t_dim)
        self.up2, self.up1 = ResBlock(10 * w, 2 * w, t_dim), ResBlock(3 * w, w, t_dim)
        self.out = nn.Conv2d(w, 1, 3, padding=1)

    def forward(self, x, t):
        arg = t[:, None].float() * self.freq
        temb = self.time(torch.cat([arg.sin(), arg.cos()], 1))
        a = self.down1(self.inp(x), temb)
        b = self.down2(F.avg_pool2d(a, 2), temb)
        h = self.mid(F.avg_pool2d(b, 2), temb)
        h = self.up2(torch.cat([F.interpolate(h, scale_factor=2.0), b], 1), temb)
        h = self.up1(torch.cat([F.interpolate(h, scale_factor=2.0), a], 1), temb)
        return self.out(h)


class EMA:
    def __init__(self, model, decay):
        self.model = copy.deepcopy(model).requires_grad_(False)
        self.decay = decay

    @torch.no_grad()
    def update(self, model):
        torch._foreach_lerp_(list(self.model.parameters()), list(model.parameters()), 1 - self.decay)


def save_state(path, step, model, ema, opt):
    tmp = path + ".tmp"
    torch.save({"step": step, "model": model.state_dict(), "ema": ema.model.state_dict(),
                "optimizer": opt.state_dict(), "rng": torch.get_rng_state()}, tmp)
    with open(tmp, "rb") as f:
        digest = hashlib.sha256(f.read()).hexdigest()
    os.replace(tmp, path)
    with open(path + ".sha256", "w") as f:
        f.write(digest)


def train(args, out_dir):
    torch.manual_seed(args.seed)
    images = make_shapes(args.images, args.size, torch.Generator().manual_seed(args.seed))
    alpha_bar = torch.cumprod(1 - torch.linspace(1e-4, 0.02, args.timesteps), 0)
    model = UNet(args.width)
    ema = EMA(model, decay=0.995)
    opt = torch.optim.AdamW(model.parameters(), lr=args.lr, fused=True)
    start = time.time()
    for step in range(1, args.steps + 1):
        x0 = images[torch.randint(len(images), (args.batch_size,))]
        t = torch.randint(args.timesteps, (args.batch_size,))
        ab = alpha_bar[t].view(-1, 1, 1, 1)
        noise = torch.randn_like(x0)
        pred = model(ab.sqrt() * x0 + (1 - ab).sqrt() * noise, t)
        loss = F.mse_loss(pred, noise)
        opt.zero_grad()
        loss.backward()
        opt.step()
        ema.update(model)
        if step % args.save_every == 0:
            save_state(os.path.join(out_dir, "last.pt"), step, model, ema, opt)
        if step % args.print_every == 0:
            print(f"step {step:4d}/{args.steps} mse {loss.item():.4f} "
                  f"{step / (time.time() - start):.2f} it/s", flush=True)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--images", type=int, default=2048)
    p.add_argument("--size", type=int, default=16)
    p.add_argument("--width", type=int, default=32)
    p.add_argument("--timesteps", type=int, default=400)
    p.add_argument("--steps", type=int, default=320)
    p.add_argument("--batch-size", type=int, default=12)
    p.add_argument("--save-every", type=int, default=1)
    p.add_argument("--print-every", type=int, default=20)
    p.add_argument("--lr", type=float, default=1e-3)
    p.add_argument("--seed", type=int, default=13)
    args = p.parse_args()
    with tempfile.TemporaryDirectory() as out_dir:
        train(args, out_dir)


if __name__ == "__main__":
    main()
