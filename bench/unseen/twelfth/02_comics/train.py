"""Colours grey comic panels: a small U-Net trained with pixel and feature losses."""
import argparse
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

CROP = 48


def make_pages(count, size=96, seed=0):
    """Flat coloured regions with dark outlines."""
    rng = np.random.default_rng(seed)
    yy, xx = np.mgrid[:size, :size].astype(np.float32)
    pages = np.empty((count, 3, size, size), dtype=np.uint8)
    for i in range(count):
        n = 7
        cy, cx = rng.uniform(0, size, (2, n, 1, 1)).astype(np.float32)
        dist = (yy - cy) ** 2 + (xx - cx) ** 2
        near = np.partition(dist, 1, axis=0)
        colours = rng.integers(40, 255, (n, 3))
        page = colours[dist.argmin(0)].transpose(2, 0, 1)
        page = np.where(np.sqrt(near[1]) - np.sqrt(near[0]) < 2.0, 15, page)
        pages[i] = page
    return torch.from_numpy(pages)


def block(cin, cout):
    return nn.Sequential(nn.Conv2d(cin, cout, 3, padding=1), nn.GroupNorm(4, cout), nn.ReLU(inplace=True))


class Colourer(nn.Module):
    def __init__(self, width=24):
        super().__init__()
        self.enc1 = block(1, width)
        self.enc2 = block(width, 2 * width)
        self.enc3 = block(2 * width, 4 * width)
        self.dec2 = block(6 * width, 2 * width)
        self.dec1 = block(3 * width, width)
        self.out = nn.Conv2d(width, 3, 1)

    def forward(self, grey):
        e1 = self.enc1(grey)
        e2 = self.enc2(F.max_pool2d(e1, 2))
        e3 = self.enc3(F.max_pool2d(e2, 2))
        d2 = self.dec2(torch.cat([F.interpolate(e3, scale_factor=2.0), e2], 1))
        d1 = self.dec1(torch.cat([F.interpolate(d2, scale_factor=2.0), e1], 1))
        return torch.sigmoid(self.out(d1))


class FeatureLoss(nn.Module):
    """L1 between activations of a fixed conv net; random weights do well on line art."""

    def __init__(self):
        super().__init__()
        self.stages = nn.ModuleList([
            nn.Sequential(nn.Conv2d(3, 32, 3, padding=1), nn.ReLU(inplace=True),
                          nn.Conv2d(32, 32, 3, padding=1), nn.ReLU(inplace=True)),
            nn.Sequential(nn.MaxPool2d(2), nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(inplace=True),
                          nn.Conv2d(64, 64, 3, padding=1), nn.ReLU(inplace=True)),
            nn.Sequential(nn.MaxPool2d(2), nn.Conv2d(64, 128, 3, padding=1), nn.ReLU(inplace=True),
                          nn.Conv2d(128, 128, 3, padding=1), nn.ReLU(inplace=True)),
        ])
        for m in self.modules():
            if isinstance(m, nn.Conv2d):
                nn.init.kaiming_normal_(m.weight)
                nn.init.zeros_(m.bias)
        self.eval()

    def forward(self, pred, target):
        a, b, total = pred, target, 0.0
        for stage in self.stages:
            a, b = stage(a), stage(b)
            total = total + F.l1_loss(a, b)
        return total


def sample(pages, batch, gen):
    idx = torch.randint(len(pages), (batch,), generator=gen)
    y, x = torch.randint(0, pages.shape[-1] - CROP, (2,), generator=gen).tolist()
    colour = pages[idx, :, y:y + CROP, x:x + CROP].float().div_(255)
    if torch.rand((), generator=gen) < 0.5:
        colour = colour.flip(-1)
    weights = torch.tensor([0.299, 0.587, 0.114]).view(1, 3, 1, 1)
    return (colour * weights).sum(1, keepdim=True), colour


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=400)
    ap.add_argument("--batch", type=int, default=8)
    ap.add_argument("--feature-weight", type=float, default=0.1)
    args = ap.parse_args()
    torch.manual_seed(0)
    gen = torch.Generator().manual_seed(1)

    pages = make_pages(600)
    net = Colourer()
    features = FeatureLoss()
    opt = torch.optim.Adam(net.parameters(), lr=2e-3, betas=(0.9, 0.99), fused=True)
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, max_lr=2e-3, total_steps=args.steps)

    began = time.time()
    for step in range(1, args.steps + 1):
        grey, colour = sample(pages, args.batch, gen)
        pred = net(grey)
        pixel = F.l1_loss(pred, colour)
        perceptual = features(pred, colour)
        loss = pixel + args.feature_weight * perceptual
        opt.zero_grad()
        loss.backward()
        opt.step()
        sched.step()
        if step % 25 == 0:
            print(f"step {step} pixel {pixel.item():.4f} feature {perceptual.item():.4f} "
                  f"{time.time() - began:.1f}s", flush=True)


if __name__ == "__main__":
    main()
