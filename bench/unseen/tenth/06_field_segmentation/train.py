"""Crop-field segmentation from four-band satellite tiles.

Tiles do not fit in large batches on the target machines, so gradients are
accumulated over several micro-batches.  The best checkpoint is kept by mIoU.
"""
import argparse
import csv
import logging
import os
import tempfile
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

log = logging.getLogger("fields")
CLASSES = ("other", "maize", "wheat", "water")


def make_tiles(n, size, seed):
    """Voronoi parcels with class-dependent spectra and texture."""
    rng = np.random.default_rng(seed)
    spectra = rng.uniform(0.2, 0.8, (len(CLASSES), 4)).astype(np.float32)
    yy, xx = np.mgrid[0:size, 0:size]
    images = np.empty((n, 4, size, size), dtype=np.float32)
    labels = np.empty((n, size, size), dtype=np.int64)
    for i in range(n):
        seeds = rng.uniform(0, size, (9, 2))
        kind = rng.integers(0, len(CLASSES), 9)
        d = (yy[None] - seeds[:, 0, None, None]) ** 2 + (xx[None] - seeds[:, 1, None, None]) ** 2
        labels[i] = kind[d.argmin(0)]
        images[i] = spectra[labels[i]].transpose(2, 0, 1)
    images += rng.normal(0, 0.25, images.shape).astype(np.float32)
    return torch.from_numpy(images), torch.from_numpy(labels)


def micro_batches(images, labels, size, generator):
    """Endless stream of shuffled, randomly rotated micro-batches."""
    while True:
        order = torch.randperm(len(images), generator=generator)
        for idx in order.split(size)[: len(images) // size]:
            k = int(torch.randint(4, (), generator=generator))
            x, y = images[idx].rot90(k, (2, 3)), labels[idx].rot90(k, (1, 2))
            yield x.contiguous(memory_format=torch.channels_last), y.contiguous()


def block(cin, cout):
    return nn.Sequential(
        nn.Conv2d(cin, cout, 3, padding=1, bias=False), nn.BatchNorm2d(cout), nn.ReLU(inplace=True),
        nn.Conv2d(cout, cout, 3, padding=1, bias=False), nn.BatchNorm2d(cout), nn.ReLU(inplace=True),
    )


class UNet(nn.Module):
    def __init__(self, width=16):
        super().__init__()
        w = width
        self.enc1, self.enc2, self.mid = block(4, w), block(w, 2 * w), block(2 * w, 4 * w)
        self.dec2, self.dec1 = block(6 * w, 2 * w), block(3 * w, w)
        self.head = nn.Conv2d(w, len(CLASSES), 1)

    def forward(self, x):
        a = self.enc1(x)
        b = self.enc2(F.max_pool2d(a, 2))
        c = self.mid(F.max_pool2d(b, 2))
        b = self.dec2(torch.cat([F.interpolate(c, scale_factor=2), b], dim=1))
        a = self.dec1(torch.cat([F.interpolate(b, scale_factor=2), a], dim=1))
        return self.head(a)


def dice_ce(logits, target):
    ce = F.cross_entropy(logits, target)
    prob = logits.softmax(1)
    hot = F.one_hot(target, logits.shape[1]).permute(0, 3, 1, 2).to(prob.dtype)
    inter = (prob * hot).sum((0, 2, 3))
    dice = 1 - (2 * inter / (prob.sum((0, 2, 3)) + hot.sum((0, 2, 3)) + 1e-6)).mean()
    return ce + 0.5 * dice


@torch.inference_mode()
def mean_iou(model, images, labels, batch=32):
    model.eval()
    k = len(CLASSES)
    conf = torch.zeros(k * k, dtype=torch.int64)
    for x, y in zip(images.split(batch), labels.split(batch)):
        pred = model(x.contiguous(memory_format=torch.channels_last)).argmax(1)
        conf += torch.bincount((y * k + pred).flatten(), minlength=k * k)
    conf = conf.view(k, k).double()
    inter = conf.diag()
    model.train()
    return (inter / (conf.sum(0) + conf.sum(1) - inter).clamp(min=1)).mean().item()


class History:
    """Keeps the best checkpoint and a CSV of the validation curve."""

    def __init__(self, folder):
        self.folder, self.best = folder, -1.0
        self.csv = os.path.join(folder, "history.csv")

    def add(self, step, score, model):
        with open(self.csv, "a", newline="") as f:
            csv.writer(f).writerow([step, f"{score:.4f}"])
        if score > self.best:
            self.best = score
            log.info("step %d: best mIoU so far %.4f", step, score)
            torch.save(model.state_dict(), os.path.join(self.folder, "best.pt"))


def main():
    ap = argparse.ArgumentParser(description=__doc__)
    ap.add_argument("--tiles", type=int, default=600)
    ap.add_argument("--val-tiles", type=int, default=240)
    ap.add_argument("--size", type=int, default=48)
    ap.add_argument("--updates", type=int, default=60)
    ap.add_argument("--micro-batch", type=int, default=8)
    ap.add_argument("--accumulate", type=int, default=8)
    ap.add_argument("--eval-every", type=int, default=10)
    ap.add_argument("--log-every", type=int, default=5)
    ap.add_argument("--width", type=int, default=16)
    ap.add_argument("--lr", type=float, default=3e-3)
    ap.add_argument("--seed", type=int, default=23)
    args = ap.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    torch.manual_seed(args.seed)

    images, labels = make_tiles(args.tiles + args.val_tiles, args.size, args.seed)
    val = images[args.tiles:], labels[args.tiles:]
    gen = torch.Generator().manual_seed(args.seed)
    stream = micro_batches(images[:args.tiles], labels[:args.tiles], args.micro_batch, gen)
    model = UNet(args.width).to(memory_format=torch.channels_last)
    opt = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=1e-3)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, args.updates)
    history = History(tempfile.mkdtemp(prefix="fields_"))

    update, window = 0, 0.0
    tic = time.perf_counter()
    for micro, (x, y) in enumerate(stream, 1):
        loss = dice_ce(model(x), y)
        (loss / args.accumulate).backward()
        window += loss.item() / args.accumulate
        if micro % args.accumulate == 0:
            opt.step()
            sched.step()
            opt.zero_grad(set_to_none=True)
            update += 1
            if update % args.log_every == 0:
                log.info("update %d loss %.4f", update, window / args.log_every)
                window = 0.0
        if update and update % args.eval_every == 0:
            history.add(update, mean_iou(model, *val), model)
        if update == args.updates:
            break
    spent = time.perf_counter() - tic
    log.info("best mIoU %.4f", history.best)
    log.info("%d micro-batches, %.1f ms per micro-batch", micro, 1000 * spent / micro)


if __name__ == "__main__":
    main()
