"""Super-resolution of rock thin sections (sub-pixel CNN on the luma channel).

The photographs stand as PNG files in one folder; every item is a random crop of one of them and its
reduced copy.
"""
from __future__ import annotations

import argparse
import math
import os
import tempfile
import time
from functools import lru_cache
from glob import glob

import numpy as np
import torch
import torch.nn as nn
from PIL import Image
from scipy.spatial import cKDTree
from torch.utils.data import DataLoader, Dataset


def photograph(rng, size):
    """Grains of quartz, feldspar and mica under crossed polars."""
    small = size // 4
    seeds = rng.uniform(0, small, (140, 2))
    yy, xx = np.mgrid[0:small, 0:small]
    dist, who = cKDTree(seeds).query(np.stack([yy.ravel(), xx.ravel()], 1), k=2)
    tint = rng.uniform(40, 220, (len(seeds), 3))
    stripes = rng.uniform(0.2, 1.2, (len(seeds), 2))
    first = who[:, 0]
    wave = np.sin(stripes[first, 0] * yy.ravel() + stripes[first, 1] * xx.ravel())
    rgb = tint[first] + 18 * wave[:, None]
    rgb *= np.clip((dist[:, 1] - dist[:, 0]) / 1.5, 0.25, 1)[:, None]
    img = Image.fromarray(np.clip(rgb, 0, 255).astype(np.uint8).reshape(small, small, 3))
    big = np.asarray(img.resize((size, size), Image.BICUBIC), dtype=np.int16)
    big = big + rng.integers(-4, 5, (size, size, 1), dtype=np.int16)
    return Image.fromarray(np.clip(big, 0, 255).astype(np.uint8))


def make_collection(folder, count, size, seed):
    os.makedirs(folder, exist_ok=True)
    for i in range(count):
        path = os.path.join(folder, f"section_{i:03d}.png")
        if not os.path.exists(path):
            tmp = f"{path}.{os.getpid()}"
            photograph(np.random.default_rng(seed + i), size).save(tmp, format="PNG", compress_level=1)
            os.replace(tmp, path)
    return sorted(glob(os.path.join(folder, "*.png")))[:count]


@lru_cache(maxsize=8)
def load_luma(path):
    y, _, _ = Image.open(path).convert("YCbCr").split()
    return y


class SectionCrops(Dataset):
    def __init__(self, paths, crop, scale, per_image, train):
        self.paths, self.crop, self.scale = paths, crop, scale
        self.per_image, self.train = per_image, train

    def __len__(self):
        return len(self.paths) * self.per_image

    def __getitem__(self, i):
        photo = load_luma(self.paths[i % len(self.paths)])
        if self.train:
            left = int(torch.randint(photo.width - self.crop, (1,)))
            top = int(torch.randint(photo.height - self.crop, (1,)))
            turn = int(torch.randint(4, (1,)))
        else:
            left = top = 37 * (i // len(self.paths)) % (photo.width - self.crop)
            turn = 0
        patch = photo.crop((left, top, left + self.crop, top + self.crop))
        if turn:
            patch = patch.rotate(90 * turn)
        low = patch.resize((self.crop // self.scale,) * 2, Image.BICUBIC)
        to = lambda im: torch.from_numpy(np.array(im, dtype=np.float32)).div_(255).unsqueeze(0)
        return to(low), to(patch)


class Residual(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(width, width, 3, padding=1), nn.ReLU(inplace=True),
                                  nn.Conv2d(width, width, 3, padding=1))

    def forward(self, x):
        return x + self.body(x)


class SubPixelNet(nn.Module):
    def __init__(self, scale, width, blocks):
        super().__init__()
        self.head = nn.Conv2d(1, width, 5, padding=2)
        self.body = nn.Sequential(*[Residual(width) for _ in range(blocks)])
        self.tail = nn.Sequential(nn.Conv2d(width, scale ** 2, 3, padding=1), nn.PixelShuffle(scale))
        for m in self.modules():
            if isinstance(m, nn.Conv2d):
                nn.init.orthogonal_(m.weight, 0.7)
                nn.init.zeros_(m.bias)

    def forward(self, x):
        h = self.head(x)
        return self.tail(h + self.body(h))


def train_epoch(epoch, model, loader, opt, loss_fn, args, start):
    model.train()
    total = 0.0
    for it, (low, high) in enumerate(loader):
        opt.zero_grad()
        loss = loss_fn(model(low), high)
        loss.backward()
        opt.step()
        total += loss.item()
        if it % args.log_interval == 0:
            print(f"epoch {epoch} [{it}/{len(loader)}] loss {loss.item():.6f} {time.time() - start:.1f}s", flush=True)
    print(f"epoch {epoch} done, mean loss {total / len(loader):.6f}", flush=True)


@torch.no_grad()
def test(model, loader):
    model.eval()
    psnr, n = 0.0, 0
    for low, high in loader:
        mse = (model(low) - high).pow(2).mean((1, 2, 3))
        psnr += (-10 * mse.log10()).sum().item()
        n += len(low)
    return psnr / n


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--data", default=os.path.join(tempfile.gettempdir(), "thin_sections"))
    p.add_argument("--photos", type=int, default=32)
    p.add_argument("--size", type=int, default=640)
    p.add_argument("--scale", type=int, default=2)
    p.add_argument("--crop", type=int, default=64)
    p.add_argument("--crops-per-photo", type=int, default=64)
    p.add_argument("--width", type=int, default=32)
    p.add_argument("--blocks", type=int, default=4)
    p.add_argument("--batch-size", type=int, default=16)
    p.add_argument("--epochs", type=int, default=3)
    p.add_argument("--lr", type=float, default=1e-3)
    p.add_argument("--log-interval", type=int, default=20)
    p.add_argument("--seed", type=int, default=123)
    p.add_argument("--checkpoint", default=None)
    args = p.parse_args()

    torch.manual_seed(args.seed)
    paths = make_collection(args.data, args.photos, args.size, args.seed)
    held = max(2, len(paths) // 10)
    train_set = SectionCrops(paths[held:], args.crop, args.scale, args.crops_per_photo, True)
    test_set = SectionCrops(paths[:held], args.crop, args.scale, 16, False)
    train_loader = DataLoader(train_set, args.batch_size, shuffle=True, drop_last=True)
    test_loader = DataLoader(test_set, args.batch_size)

    model = SubPixelNet(args.scale, args.width, args.blocks)
    opt = torch.optim.Adam(model.parameters(), lr=args.lr)
    start, best = time.time(), -math.inf
    for epoch in range(1, args.epochs + 1):
        train_epoch(epoch, model, train_loader, opt, nn.functional.l1_loss, args, start)
        psnr = test(model, test_loader)
        print(f"epoch {epoch} PSNR {psnr:.3f} dB", flush=True)
        if psnr > best:
            best = psnr
            if args.checkpoint:
                torch.save({"model": model.state_dict(), "epoch": epoch, "psnr": psnr}, args.checkpoint)


if __name__ == "__main__":
    main()
