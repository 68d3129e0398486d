"""Denoising diffusion for seamless textile repeats (stripe, tartan, herringbone, dots)."""
import argparse
import copy
import json
import math
import os
import tempfile
import time

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset, random_split

TILE = 24
FAMILIES = ("stripe", "tartan", "herringbone", "dots")


def weave_tile(family, rng):
    y, x = np.mgrid[0:TILE, 0:TILE] / TILE
    palette = rng.uniform(-1, 1, (3, 3))
    k = int(rng.integers(1, 4))
    phase = rng.uniform()
    if family == "stripe":
        a = np.sin(2 * np.pi * (k * x + phase)) > 0
        b = np.zeros_like(a)
    elif family == "tartan":
        a = np.sin(2 * np.pi * (k * x + phase)) > 0.2
        b = np.sin(2 * np.pi * (k * y + phase)) > 0.2
    elif family == "herringbone":
        a = ((x * 2 * k + np.abs(y * 2 % 1 - 0.5) * 2) % 1) > 0.5
        b = np.zeros_like(a)
    else:
        a = np.hypot((x * k) % 1 - 0.5, (y * k) % 1 - 0.5) < rng.uniform(0.2, 0.4)
        b = np.zeros_like(a)
    tile = palette[0] * (~a & ~b)[..., None] + palette[1] * a[..., None] + palette[2] * (b & ~a)[..., None]
    return (np.clip(tile, -1, 1).transpose(2, 0, 1) * 127).astype(np.int8)


def make_archive(path, count, seed):
    rng = np.random.default_rng(seed)
    family = rng.integers(0, len(FAMILIES), count)
    tiles = np.stack([weave_tile(FAMILIES[f], rng) for f in family])
    np.savez_compressed(path, tiles=tiles, family=family)


class Repeats(Dataset):
    """Tiles repeat in both directions, so any cyclic shift of a tile is a valid tile."""

    def __init__(self, path):
        with np.load(path) as archive:
            self.tiles = torch.from_numpy(archive["tiles"])
            self.family = torch.from_numpy(archive["family"])

    def __len__(self):
        return len(self.tiles)

    def __getitem__(self, i):
        tile = self.tiles[i].float() / 127
        dy, dx = torch.randint(0, TILE, (2,)).tolist()
        tile = torch.roll(tile, (dy, dx), dims=(1, 2))
        if torch.rand(()) < 0.5:
            tile = tile.flip(2)
        return tile, self.family[i]


def time_features(t, dim):
    freq = torch.exp(-math.log(10_000) * torch.arange(dim // 2, device=t.device) / (dim // 2))
    angle = t[:, None].float() * freq[None]
    return torch.cat([angle.sin(), angle.cos()], dim=1)


class Block(nn.Module):
    def __init__(self, cin, cout, emb):
        super().__init__()
        self.norm1 = nn.GroupNorm(8, cin)
        self.conv1 = nn.Conv2d(cin, cout, 3, padding=1, padding_mode="circular")
        self.emb = nn.Linear(emb, cout)
        self.norm2 = nn.GroupNorm(8, cout)
        self.conv2 = nn.Conv2d(cout, cout, 3, padding=1, padding_mode="circular")
        self.skip = nn.Conv2d(cin, cout, 1) if cin != cout else nn.Identity()

    def forward(self, x, e):
        h = self.conv1(F.silu(self.norm1(x))) + self.emb(e)[:, :, None, None]
        return self.skip(x) + self.conv2(F.silu(self.norm2(h)))


class WeaveUNet(nn.Module):
    def __init__(self, width=32, emb=96):
        super().__init__()
        self.emb_dim = emb
        self.family = nn.Embedding(len(FAMILIES), emb)
        self.mlp = nn.Sequential(nn.Linear(emb, emb), nn.SiLU(), nn.Linear(emb, emb))
        self.stem = nn.Conv2d(3, width, 3, padding=1, padding_mode="circular")
        self.down1 = Block(width, width, emb)
        self.down2 = Block(width, 2 * width, emb)
        self.mid = Block(2 * width, 2 * width, emb)
        self.up2 = Block(4 * width, width, emb)
        self.up1 = Block(2 * width, width, emb)
        self.out = nn.Conv2d(width, 3, 1)

    def forward(self, x, t, family):
        e = F.silu(self.mlp(time_features(t, self.emb_dim)) + self.family(family))
        a = self.down1(self.stem(x), e)
        b = self.down2(F.avg_pool2d(a, 2), e)
        c = self.mid(F.avg_pool2d(b, 2), e)
        d = self.up2(torch.cat([F.interpolate(c, scale_factor=2), b], 1), e)
        d = self.up1(torch.cat([F.interpolate(d, scale_factor=2), a], 1), e)
        return self.out(d)


class Diffusion:
    def __init__(self, steps=200, device="cpu"):
        self.steps = steps
        f = torch.cos((torch.linspace(0, 1, steps + 1, device=device) + 0.008) / 1.008 * math.pi / 2) ** 2
        self.abar = (f / f[0]).clamp(1e-4, 1.0)

    def loss(self, model, x, family, t=None, noise=None):
        t = torch.randint(1, self.steps + 1, (len(x),), device=x.device) if t is None else t
        noise = torch.randn_like(x) if noise is None else noise
        a = self.abar[t][:, None, None, None]
        return F.mse_loss(model(a.sqrt() * x + (1 - a).sqrt() * noise, t, family), noise)

    @torch.no_grad()
    def sample(self, model, family, n_steps=10):
        x = torch.randn(len(family), 3, TILE, TILE, device=self.abar.device)
        ts = torch.linspace(self.steps, 0, n_steps + 1).long().tolist()
        for now, then in zip(ts[:-1], ts[1:]):
            eps = model(x, torch.full((len(x),), now, device=x.device), family)
            a, b = self.abar[now], self.abar[then]
            x0 = ((x - (1 - a).sqrt() * eps) / a.sqrt()).clamp(-1, 1)
            x = b.sqrt() * x0 + (1 - b).sqrt() * eps
        return x


@torch.no_grad()
def update_ema(ema, model, decay):
    for old, new in zip(ema.parameters(), model.parameters()):
        old.lerp_(new, 1 - decay)


@torch.no_grad()
def validate(diffusion, ema, loader, device):
    generator = torch.Generator().manual_seed(0)
    total, n = 0.0, 0
    for x, family in loader:
        t = torch.randint(1, diffusion.steps + 1, (len(x),), generator=generator).to(device)
        noise = torch.randn(x.shape, generator=generator).to(device)
        total += diffusion.loss(ema, x.to(device), family.to(device), t, noise).item() * len(x)
        n += len(x)
    return total / n


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tiles", type=int, default=2600)
    parser.add_argument("--batch-size", type=int, default=16)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--ema", type=float, default=0.995)
    args = parser.parse_args()

    torch.manual_seed(2)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    folder = tempfile.mkdtemp(prefix="weave_")
    make_archive(os.path.join(folder, "tiles.npz"), args.tiles, seed=2)
    train_set, val_set = random_split(Repeats(os.path.join(folder, "tiles.npz")), [0.95, 0.05])
    train_loader = DataLoader(train_set, args.batch_size, shuffle=True, num_workers=0, drop_last=True)
    val_loader = DataLoader(val_set, 64)

    model = WeaveUNet().to(device)
    ema = copy.deepcopy(model).eval().requires_grad_(False)
    diffusion = Diffusion(device=device)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)
    step, began = 0, time.perf_counter()
    log = open(os.path.join(folder, "metrics.jsonl"), "a")
    for epoch in range(args.epochs):
        for x, family in train_loader:
            loss = diffusion.loss(model, x.to(device), family.to(device))
            optimizer.zero_grad()
            loss.backward()
            norm = nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            update_ema(ema, model, args.ema)
            step += 1
            log.write(json.dumps({"step": step, "loss": loss.item(), "grad_norm": norm.item()}) + "\n")
            log.flush()
            if step % 50 == 0:
                print(f"{step:5d} loss {loss.item():.4f} {step / (time.perf_counter() - began):.2f} it/s", flush=True)
        val = validate(diffusion, ema, val_loader, device)
        sheet = diffusion.sample(ema, torch.arange(len(FAMILIES), device=device).repeat(2))
        np.save(os.path.join(folder, f"sheet_{epoch}.npy"), sheet.cpu().numpy())
        torch.save({"model": model.state_dict(), "ema": ema.state_dict(), "optimizer": optimizer.state_dict(),
                    "epoch": epoch}, os.path.join(folder, "last.pt"))
        print(f"epoch {epoch} val {val:.5f}", flush=True)
    log.close()


if __name__ == "__main__":
    main()
