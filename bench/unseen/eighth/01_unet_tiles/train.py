"""Train a small U-Net to segment blobs in microscope-like tiles.

The raw frames live as .npy files; every sample is a random augmented crop of one frame.
"""
import argparse
import logging
import math
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

log = logging.getLogger("unet")


def write_frames(folder, count, size, seed):
    rng = np.random.default_rng(seed)
    yy, xx = np.mgrid[0:size, 0:size].astype(np.float32)
    for i in range(count):
        mask = np.zeros((size, size), dtype=bool)
        for _ in range(25):
            cy, cx = rng.uniform(0, size, 2)
            r = rng.uniform(10, 40)
            mask |= (yy - cy) ** 2 + (xx - cx) ** 2 < r * r
        img = 0.4 * mask + rng.normal(0.3, 0.15, (size, size))
        np.save(folder / f"frame_{i:03d}_img.npy", img.astype(np.float32))
        np.save(folder / f"frame_{i:03d}_mask.npy", mask.astype(np.float32))


def rotate(img, mask, degrees):
    rad = math.radians(degrees)
    theta = torch.tensor([[math.cos(rad), -math.sin(rad), 0.0],
                          [math.sin(rad), math.cos(rad), 0.0]])
    both = torch.stack([img, mask])[None]
    grid = F.affine_grid(theta[None], both.shape, align_corners=False)
    out = F.grid_sample(both, grid, mode="bilinear", padding_mode="reflection",
                        align_corners=False)[0]
    return out[0], (out[1] > 0.5).float()


def random_crop(img, mask, crop):
    top = int(torch.randint(0, img.shape[0] - crop + 1, (1,)))
    left = int(torch.randint(0, img.shape[1] - crop + 1, (1,)))
    window = (slice(top, top + crop), slice(left, left + crop))
    return img[window], mask[window]


class FrameCrops(Dataset):
    def __init__(self, folder, crop, per_frame, augment=True):
        self.images = [torch.from_numpy(np.load(p)) for p in sorted(folder.glob("*_img.npy"))]
        self.masks = [torch.from_numpy(np.load(p)) for p in sorted(folder.glob("*_mask.npy"))]
        self.crop = crop
        self.per_frame = per_frame
        self.augment = augment

    def __len__(self):
        return len(self.images) * self.per_frame

    def __getitem__(self, index):
        img = self.images[index % len(self.images)]
        mask = self.masks[index % len(self.masks)]
        if self.augment:
            img, mask = rotate(img, mask, float(torch.empty(1).uniform_(-180, 180)))
            gamma = float(torch.empty(1).uniform_(0.8, 1.25))
            img = img.clamp_min(1e-3) ** gamma
        img, mask = random_crop(img, mask, self.crop)
        return img[None].contiguous(), mask[None].contiguous()


def block(cin, cout):
    return nn.Sequential(
        nn.Conv2d(cin, cout, 3, padding=1, bias=False), nn.BatchNorm2d(cout), nn.ReLU(inplace=True),
        nn.Conv2d(cout, cout, 3, padding=1, bias=False), nn.BatchNorm2d(cout), nn.ReLU(inplace=True))


class UNet(nn.Module):
    def __init__(self, width=12):
        super().__init__()
        self.down1 = block(1, width)
        self.down2 = block(width, 2 * width)
        self.middle = block(2 * width, 4 * width)
        self.up2 = nn.ConvTranspose2d(4 * width, 2 * width, 2, stride=2)
        self.dec2 = block(4 * width, 2 * width)
        self.up1 = nn.ConvTranspose2d(2 * width, width, 2, stride=2)
        self.dec1 = block(2 * width, width)
        self.head = nn.Conv2d(width, 1, 1)

    def forward(self, x):
        a = self.down1(x)
        b = self.down2(F.max_pool2d(a, 2))
        c = self.middle(F.max_pool2d(b, 2))
        b = self.dec2(torch.cat([self.up2(c), b], 1))
        a = self.dec1(torch.cat([self.up1(b), a], 1))
        return self.head(a)


def dice_loss(logits, target):
    p = torch.sigmoid(logits)
    inter = (p * target).sum((1, 2, 3))
    return 1 - ((2 * inter + 1) / (p.sum((1, 2, 3)) + target.sum((1, 2, 3)) + 1)).mean()


@torch.no_grad()
def validate(model, loader):
    model.eval()
    scores = [1 - dice_loss(model(x), y).item() for x, y in loader]
    model.train()
    return sum(scores) / len(scores)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--frames", type=int, default=8)
    ap.add_argument("--size", type=int, default=800)
    ap.add_argument("--crop", type=int, default=96)
    ap.add_argument("--batch-size", type=int, default=8)
    ap.add_argument("--epochs", type=int, default=2)
    ap.add_argument("--lr", type=float, default=2e-3)
    ap.add_argument("--seed", type=int, default=7)
    args = ap.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    torch.manual_seed(args.seed)

    with tempfile.TemporaryDirectory() as tmp:
        train_dir, val_dir = Path(tmp, "train"), Path(tmp, "val")
        train_dir.mkdir()
        val_dir.mkdir()
        write_frames(train_dir, args.frames, args.size, args.seed)
        write_frames(val_dir, 2, args.size, args.seed + 1)
        train = FrameCrops(train_dir, args.crop, per_frame=40)
        val = FrameCrops(val_dir, args.crop, per_frame=8, augment=False)

    loader = DataLoader(train, batch_size=args.batch_size, shuffle=True, drop_last=True)
    val_loader = DataLoader(val, batch_size=args.batch_size)
    model = UNet()
    opt = torch.optim.AdamW(model.parameters(), lr=args.lr)
    for epoch in range(args.epochs):
        start = time.time()
        for step, (x, y) in enumerate(loader):
            logits = model(x)
            loss = F.binary_cross_entropy_with_logits(logits, y) + dice_loss(logits, y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            if step % 20 == 0:
                log.info("epoch %d step %d loss %.4f", epoch, step, loss.item())
        log.info("epoch %d dice %.3f in %.1f s", epoch, validate(model, val_loader), time.time() - start)


if __name__ == "__main__":
    main()
