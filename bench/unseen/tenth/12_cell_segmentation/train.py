"""Cell segmentation: a small U-Net on synthetic microscopy tiles kept as uint8 arrays on disk."""
import argparse
import logging
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from scipy.ndimage import gaussian_filter
from torch.utils.data import DataLoader, Dataset

log = logging.getLogger("cells")


def draw_tiles(folder, n, size, seed):
    """Writes images.npy and masks.npy: background, cell body, nucleus."""
    rng = np.random.default_rng(seed)
    yy, xx = np.mgrid[:size, :size]
    images = np.empty((n, size, size), np.uint8)
    masks = np.zeros((n, size, size), np.uint8)
    for i in range(n):
        img = np.full((size, size), 40.0)
        for _ in range(rng.integers(4, 10)):
            cy, cx = rng.uniform(0, size, 2)
            a, b = rng.uniform(6, 14, 2)
            r = ((yy - cy) / a) ** 2 + ((xx - cx) / b) ** 2
            masks[i][r < 1] = 1
            img[r < 1] = rng.uniform(80, 140)
            masks[i][r < 0.2] = 2
            img[r < 0.2] = rng.uniform(150, 220)
        img = gaussian_filter(img, 1.2) + rng.normal(0, 14, img.shape)
        images[i] = np.clip(img, 0, 255)
    folder.mkdir()
    np.save(folder / "images.npy", images)
    np.save(folder / "masks.npy", masks)


class Tiles(Dataset):
    def __init__(self, folder, train):
        self.images = np.load(folder / "images.npy", mmap_mode="r")
        self.masks = np.load(folder / "masks.npy", mmap_mode="r")
        self.train = train

    def __len__(self):
        return len(self.images)

    def __getitem__(self, i):
        x = torch.from_numpy(self.images[i].astype(np.float32) / 255.0)
        y = torch.from_numpy(self.masks[i].astype(np.int64))
        if self.train:
            turn, flip, gain, shift = torch.rand(4).tolist()
            k = int(turn * 4)
            x, y = torch.rot90(x, k), torch.rot90(y, k)
            if flip < 0.5:
                x, y = x.flip(1), y.flip(1)
            x = x * (0.8 + 0.4 * gain) + 0.2 * (shift - 0.5)
        return x.unsqueeze(0), y


def conv_block(c_in, c_out):
    return nn.Sequential(
        nn.Conv2d(c_in, c_out, 3, padding=1, bias=False), nn.BatchNorm2d(c_out), nn.ReLU(inplace=True),
        nn.Conv2d(c_out, c_out, 3, padding=1, bias=False), nn.BatchNorm2d(c_out), nn.ReLU(inplace=True))


class UNet(nn.Module):
    def __init__(self, classes=3, base=16):
        super().__init__()
        self.enc1 = conv_block(1, base)
        self.enc2 = conv_block(base, 2 * base)
        self.mid = conv_block(2 * base, 4 * base)
        self.up2 = nn.ConvTranspose2d(4 * base, 2 * base, 2, stride=2)
        self.dec2 = conv_block(4 * base, 2 * base)
        self.up1 = nn.ConvTranspose2d(2 * base, base, 2, stride=2)
        self.dec1 = conv_block(2 * base, base)
        self.out = nn.Conv2d(base, classes, 1)

    def forward(self, x):
        a = self.enc1(x)
        b = self.enc2(F.max_pool2d(a, 2))
        c = self.mid(F.max_pool2d(b, 2))
        d = self.dec2(torch.cat([self.up2(c), b], 1))
        return self.out(self.dec1(torch.cat([self.up1(d), a], 1)))


def confusion(pred, target, classes=3):
    return torch.bincount((target * classes + pred).flatten(), minlength=classes ** 2).view(classes, classes)


@torch.no_grad()
def validate(model, loader):
    model.eval()
    counts = torch.zeros(3, 3, dtype=torch.long)
    for x, y in loader:
        x = x.contiguous(memory_format=torch.channels_last)
        counts += confusion(model(x).argmax(1), y)
    model.train()
    inter = counts.diag().float()
    return (inter / (counts.sum(0) + counts.sum(1) - inter).clamp(min=1)).tolist()


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int, default=4)
    p.add_argument("--tiles", type=int, default=600)
    p.add_argument("--size", type=int, default=96)
    p.add_argument("--batch-size", type=int, default=6)
    p.add_argument("--workers", type=int, default=1)
    p.add_argument("--lr", type=float, default=1e-3)
    p.add_argument("--log-every", type=int, default=50)
    args = p.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(message)s")
    torch.manual_seed(21)

    with tempfile.TemporaryDirectory() as tmp:
        root = Path(tmp)
        draw_tiles(root / "train", args.tiles, args.size, seed=0)
        draw_tiles(root / "val", 60, args.size, seed=1)
        train = DataLoader(Tiles(root / "train", True), args.batch_size, shuffle=True, drop_last=True,
                           num_workers=args.workers, persistent_workers=args.workers > 0)
        val = DataLoader(Tiles(root / "val", False), 12)

        model = UNet().to(memory_format=torch.channels_last)
        weight = torch.tensor([0.6, 1.0, 1.8])
        opt = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=1e-4)
        sched = torch.optim.lr_scheduler.OneCycleLR(opt, 3 * args.lr,
                                                    total_steps=args.epochs * len(train))
        best, steps, spent = 0.0, 0, 0.0
        for epoch in range(args.epochs):
            start, total = time.perf_counter(), torch.zeros(())
            for x, y in train:
                x = x.contiguous(memory_format=torch.channels_last)
                loss = F.cross_entropy(model(x), y, weight=weight)
                opt.zero_grad(set_to_none=True)
                loss.backward()
                opt.step()
                sched.step()
                total += loss.detach()
                steps += 1
                if steps % args.log_every == 0:
                    log.info("epoch %d step %d loss %.4f", epoch, steps, loss.item())
            spent += time.perf_counter() - start
            iou = validate(model, val)
            log.info("epoch %d train %.4f IoU %s", epoch, total.item() / len(train),
                     " ".join(f"{v:.3f}" for v in iou))
            if sum(iou) / 3 > best:
                best = sum(iou) / 3
                torch.save(model.state_dict(), root / "best.pt")
        log.info("finished %d steps, %.2f ms/step, best mean IoU %.3f", steps, 1000 * spent / steps, best)


if __name__ == "__main__":
    main()
