"""Vessel segmentation on fundus images with a small U-Net.

The images are synthesised once at start-up (bright curvy vessels on a dark
background), the training works on random crops of the full images.
"""
import argparse
import logging
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from scipy.ndimage import gaussian_filter, map_coordinates
from torch.utils.data import DataLoader, Dataset

log = logging.getLogger("vessels")


def draw_fundus(size, rng):
    """One synthetic fundus image (3, H, W) in [0, 1] and its vessel mask."""
    mask = np.zeros((size, size), dtype=np.float32)
    for _ in range(10):
        y, x = rng.uniform(0, size, 2)
        angle = rng.uniform(0, 2 * np.pi)
        for _ in range(size):
            angle += rng.normal(0, 0.08)
            y += np.sin(angle)
            x += np.cos(angle)
            if not (1 <= y < size - 2 and 1 <= x < size - 2):
                break
            mask[int(y) - 1:int(y) + 2, int(x) - 1:int(x) + 2] = 1
    base = gaussian_filter(rng.normal(size=(3, size, size)), (0, 20, 20))
    base = base / np.abs(base).max() * 0.2 + 0.4
    img = base - 0.15 * mask + rng.normal(0, 0.05, (3, size, size))
    return img.clip(0, 1).astype(np.float32), mask


class ElasticTransform:
    def __init__(self, alpha=30.0, sigma=6.0):
        self.alpha = alpha
        self.sigma = sigma

    def __call__(self, image, mask):
        h, w = mask.shape
        dy = gaussian_filter(np.random.uniform(-1, 1, (h, w)), self.sigma) * self.alpha
        dx = gaussian_filter(np.random.uniform(-1, 1, (h, w)), self.sigma) * self.alpha
        yy, xx = np.meshgrid(np.arange(h), np.arange(w), indexing="ij")
        coords = np.stack([yy + dy, xx + dx])
        image = np.stack([map_coordinates(c, coords, order=1, mode="reflect") for c in image])
        mask = map_coordinates(mask, coords, order=0, mode="reflect")
        return image, mask


class RandomCrop:
    def __init__(self, size):
        self.size = size

    def __call__(self, image, mask):
        h, w = mask.shape
        y = np.random.randint(0, h - self.size + 1)
        x = np.random.randint(0, w - self.size + 1)
        return (image[:, y:y + self.size, x:x + self.size],
                mask[y:y + self.size, x:x + self.size])


class RandomFlip:
    def __call__(self, image, mask):
        if np.random.rand() < 0.5:
            image, mask = image[:, :, ::-1], mask[:, ::-1]
        if np.random.rand() < 0.5:
            image, mask = image[:, ::-1], mask[::-1]
        return image, mask


class Compose:
    def __init__(self, transforms):
        self.transforms = transforms

    def __call__(self, image, mask):
        for t in self.transforms:
            image, mask = t(image, mask)
        return image, mask


class FundusDataset(Dataset):
    def __init__(self, images, masks, transform, repeats=1):
        self.images = images
        self.masks = masks
        self.transform = transform
        self.repeats = repeats

    def __len__(self):
        return len(self.images) * self.repeats

    def __getitem__(self, idx):
        i = idx % len(self.images)
        image, mask = self.transform(self.images[i], self.masks[i])
        return (torch.from_numpy(np.ascontiguousarray(image)),
                torch.from_numpy(np.ascontiguousarray(mask)))


def block(cin, cout):
    return nn.Sequential(
        nn.Conv2d(cin, cout, 3, padding=1, bias=False), nn.BatchNorm2d(cout), nn.ReLU(inplace=True),
        nn.Conv2d(cout, cout, 3, padding=1, bias=False), nn.BatchNorm2d(cout), nn.ReLU(inplace=True))


class UNet(nn.Module):
    def __init__(self, width=12):
        super().__init__()
        self.d1, self.d2, self.d3 = block(3, width), block(width, 2 * width), block(2 * width, 4 * width)
        self.u2, self.u1 = block(6 * width, 2 * width), block(3 * width, width)
        self.head = nn.Conv2d(width, 1, 1)

    def forward(self, x):
        a = self.d1(x)
        b = self.d2(F.max_pool2d(a, 2))
        c = self.d3(F.max_pool2d(b, 2))
        b = self.u2(torch.cat([F.interpolate(c, scale_factor=2), b], 1))
        a = self.u1(torch.cat([F.interpolate(b, scale_factor=2), a], 1))
        return self.head(a).squeeze(1)


def dice_loss(logits, target):
    p = logits.sigmoid()
    inter = (p * target).sum((1, 2))
    return 1 - ((2 * inter + 1) / (p.sum((1, 2)) + target.sum((1, 2)) + 1)).mean()


@torch.no_grad()
def validate(model, loader):
    model.eval()
    inter = union = 0.0
    for image, mask in loader:
        pred = model(image) > 0
        inter += (pred & (mask > 0.5)).sum().item()
        union += (pred | (mask > 0.5)).sum().item()
    model.train()
    return inter / max(union, 1)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int, default=5)
    p.add_argument("--batch-size", type=int, default=4)
    p.add_argument("--image-size", type=int, default=288)
    p.add_argument("--crop", type=int, default=96)
    p.add_argument("--lr", type=float, default=2e-3)
    p.add_argument("--log-every", type=int, default=20)
    p.add_argument("--seed", type=int, default=0)
    args = p.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")

    torch.manual_seed(args.seed)
    np.random.seed(args.seed)
    rng = np.random.default_rng(args.seed)
    pairs = [draw_fundus(args.image_size, rng) for _ in range(24)]
    images, masks = zip(*pairs)

    train_tf = Compose([
        ElasticTransform(),
        RandomCrop(args.crop),
        RandomFlip(),
    ])
    train_set = FundusDataset(images[:20], masks[:20], train_tf, repeats=8)
    val_set = FundusDataset(images[20:], masks[20:], Compose([]))
    train_loader = DataLoader(train_set, batch_size=args.batch_size, shuffle=True, drop_last=True)
    val_loader = DataLoader(val_set, batch_size=2)

    model = UNet()
    opt = torch.optim.AdamW(model.parameters(), lr=args.lr)
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, args.lr, total_steps=args.epochs * len(train_loader))

    step = 0
    start = time.time()
    for epoch in range(args.epochs):
        for image, mask in train_loader:
            logits = model(image)
            loss = F.binary_cross_entropy_with_logits(logits, mask) + dice_loss(logits, mask)
            opt.zero_grad()
            loss.backward()
            opt.step()
            sched.step()
            step += 1
            if step % args.log_every == 0:
                log.info("step %d loss %.4f lr %.2e", step, loss.item(), sched.get_last_lr()[0])
        log.info("epoch %d val IoU %.4f", epoch, validate(model, val_loader))
    log.info("done: %d steps in %.1f s", step, time.time() - start)
    torch.save(model.state_dict(), "/tmp/vessels_unet.pt")


if __name__ == "__main__":
    main()
