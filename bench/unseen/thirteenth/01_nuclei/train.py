"""Nucleus segmentation on fluorescence tiles: small U-Net, border-weighted cross entropy (Ronneberger et al. 2015)."""
import argparse
import math
import time
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from scipy.ndimage import distance_transform_edt, gaussian_filter
from torch.utils.data import DataLoader, Dataset

TILE = 160


def paint_tile(rng, n_nuclei):
    """One field of view: label image (0 = background, touching nuclei keep a one pixel gap) and camera image."""
    yy, xx = np.mgrid[:TILE, :TILE].astype(np.float32)
    labels = np.zeros((TILE, TILE), np.int32)
    image = np.full((TILE, TILE), 0.08, np.float32)
    centre = rng.uniform(20, TILE - 20, 2)
    for k in range(1, n_nuclei + 1):
        if rng.random() < 0.6:                       # grow the colony beside the last nucleus
            centre = np.clip(centre + rng.normal(0, 17, 2), 4, TILE - 4)
        else:
            centre = rng.uniform(4, TILE - 4, 2)
        a, b, phi = rng.uniform(7, 12), rng.uniform(5, 9), rng.uniform(0, math.pi)
        u = (xx - centre[1]) * math.cos(phi) + (yy - centre[0]) * math.sin(phi)
        v = -(xx - centre[1]) * math.sin(phi) + (yy - centre[0]) * math.cos(phi)
        r = (u / a) ** 2 + (v / b) ** 2
        inside = (r < 1) & (labels == 0)
        labels[inside] = k
        image[inside] = rng.uniform(0.35, 0.8) * (1.1 - 0.4 * r[inside])
    gap = np.zeros_like(labels, bool)
    for axis in (0, 1):
        nxt = np.roll(labels, -1, axis)
        gap |= (labels > 0) & (nxt > 0) & (labels != nxt)
    labels[gap] = 0
    image = gaussian_filter(image, 1.3) + rng.normal(0, 0.07, image.shape)
    return image.astype(np.float32), labels


def border_weights(labels, w0=10.0, sigma=5.0):
    """w(x) = w_class(x) + w0 exp(-(d1 + d2)^2 / 2 sigma^2), d1 and d2 the distances to the two nearest nuclei."""
    fg = labels > 0
    share = fg.mean()
    w = np.where(fg, 0.5 / max(share, 1e-3), 0.5 / (1 - share))
    ids = np.unique(labels)[1:]
    if len(ids) >= 2:
        dist = np.stack([distance_transform_edt(labels != i) for i in ids])
        d = np.partition(dist, 1, axis=0)[:2].sum(0)
        w = w + np.where(fg, 0.0, w0 * np.exp(-d ** 2 / (2 * sigma ** 2)))
    return w.astype(np.float32)


class NucleusTiles(Dataset):
    def __init__(self, n, crop, seed, augment=True):
        rng = np.random.default_rng(seed)
        self.tiles = [paint_tile(rng, int(rng.integers(18, 30))) for _ in range(n)]
        self.crop, self.augment = crop, augment
        self.rng = np.random.default_rng(seed + 1)

    def __len__(self):
        return len(self.tiles)

    def __getitem__(self, i):
        image, labels = self.tiles[i]
        oy = ox = (TILE - self.crop) // 2
        if self.augment:
            turns, mirror = int(self.rng.integers(4)), self.rng.random() < 0.5
            image, labels = np.rot90(image, turns), np.rot90(labels, turns)
            if mirror:
                image, labels = image[:, ::-1], labels[:, ::-1]
            image = image * self.rng.uniform(0.8, 1.25) + self.rng.normal(0, 0.03)
            oy, ox = self.rng.integers(0, TILE - self.crop + 1, 2)
        weight = border_weights(labels)
        win = np.s_[oy:oy + self.crop, ox:ox + self.crop]
        return (torch.from_numpy(np.ascontiguousarray(image[win], np.float32))[None],
                torch.from_numpy((labels[win] > 0).astype(np.int64)),
                torch.from_numpy(np.ascontiguousarray(weight[win])))


def double_conv(cin, cout):
    return nn.Sequential(nn.Conv2d(cin, cout, 3, padding=1, bias=False), nn.BatchNorm2d(cout), nn.ReLU(inplace=True),
                         nn.Conv2d(cout, cout, 3, padding=1, bias=False), nn.BatchNorm2d(cout), nn.ReLU(inplace=True))


class UNet(nn.Module):
    def __init__(self, widths=(12, 24, 48, 64)):
        super().__init__()
        self.down = nn.ModuleList(double_conv(a, b) for a, b in zip((1,) + widths[:-1], widths))
        self.up = nn.ModuleList(nn.ConvTranspose2d(b, a, 2, stride=2) for a, b in zip(widths[:-1], widths[1:]))
        self.merge = nn.ModuleList(double_conv(2 * a, a) for a in widths[:-1])
        self.head = nn.Conv2d(widths[0], 2, 1)

    def forward(self, x):
        skips = []
        for k, block in enumerate(self.down):
            x = block(x if k == 0 else F.max_pool2d(x, 2))
            skips.append(x)
        for k in reversed(range(len(self.up))):
            x = self.merge[k](torch.cat([skips[k], self.up[k](x)], 1))
        return self.head(x)


@torch.no_grad()
def dice(model, loader):
    model.eval()
    inter = total = 0.0
    for image, mask, _ in loader:
        pred = model(image).argmax(1)
        inter += 2.0 * (pred * mask).sum().item()
        total += (pred.sum() + mask.sum()).item()
    model.train()
    return inter / max(total, 1.0)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=20)
    ap.add_argument("--batch", type=int, default=8)
    ap.add_argument("--crop", type=int, default=96)
    ap.add_argument("--lr", type=float, default=0.05)
    ap.add_argument("--out", type=Path, default=Path("/tmp/nuclei_unet.pt"))
    args = ap.parse_args()
    torch.manual_seed(0)

    train = DataLoader(NucleusTiles(72, args.crop, seed=1), args.batch, shuffle=True, drop_last=True)
    val = DataLoader(NucleusTiles(8, args.crop, seed=2, augment=False), args.batch)
    model = UNet().to(memory_format=torch.channels_last)
    opt = torch.optim.SGD(model.parameters(), lr=args.lr, momentum=0.9, nesterov=True, weight_decay=1e-4)
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, args.lr, total_steps=args.epochs * len(train))

    best, t0 = 0.0, time.time()
    for epoch in range(args.epochs):
        running = 0.0
        for image, mask, weight in train:
            loss = (F.cross_entropy(model(image), mask, reduction="none") * weight).mean()
            opt.zero_grad()
            loss.backward()
            opt.step()
            sched.step()
            running += loss.item()
        line = f"epoch {epoch:2d}  loss {running / len(train):.4f}  {time.time() - t0:5.1f}s"
        if epoch % 5 == 4:
            score = dice(model, val)
            line += f"  val dice {score:.3f}"
            if score > best:
                best = score
                torch.save(model.state_dict(), args.out)
        print(line, flush=True)


if __name__ == "__main__":
    main()
