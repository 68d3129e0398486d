"""Detect cars on aerial pictures of parking lots (anchor-free, one class)."""
import argparse
import logging
import os
import time

import numpy as np
import pandas as pd
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

log = logging.getLogger("parking")
SIZE, STRIDE = 128, 8
GRID = SIZE // STRIDE


def make_annotations(n_images, seed=0):
    """Table as exported by the labelling tool: one row per car."""
    rng = np.random.default_rng(seed)
    rows = []
    for i in range(n_images):
        for _ in range(rng.integers(6, 22)):
            w, h = rng.uniform(8, 20, 2)
            x, y = rng.uniform(0, SIZE - w), rng.uniform(0, SIZE - h)
            rows.append((f"/mnt/labels/lot_{i % 17:02d}/frame_{i:06d}.png", x, y, x + w, y + h, rng.integers(0, 3)))
    return pd.DataFrame(rows, columns=["image", "x1", "y1", "x2", "y2", "quality"])


class ParkingLots(Dataset):
    def __init__(self, annotations, images, train):
        self.annotations = annotations
        self.images = images
        self.train = train

    def __len__(self):
        return len(self.images)

    def render(self, boxes, name):
        rng = np.random.default_rng(int(name[6:12]))
        img = rng.normal(0.35, 0.06, (3, SIZE, SIZE)).astype(np.float32)
        for x1, y1, x2, y2 in boxes.astype(int):
            img[:, y1:y2, x1:x2] += rng.uniform(0.1, 0.5, (3, 1, 1))
        return img

    def boxes_of(self, name):
        rows = self.annotations[self.annotations["image"].map(os.path.basename) == name]
        return rows[["x1", "y1", "x2", "y2"]].to_numpy(np.float32, copy=True)

    def __getitem__(self, i):
        boxes = self.boxes_of(self.images[i])
        img = self.render(boxes, self.images[i])
        if self.train and np.random.rand() < 0.5:
            img = img[:, :, ::-1].copy()
            boxes = boxes.copy()
            boxes[:, [0, 2]] = SIZE - boxes[:, [2, 0]]
        center = (boxes[:, :2] + boxes[:, 2:]) / 2 / STRIDE
        cx, cy = center[:, 0].astype(int).clip(0, GRID - 1), center[:, 1].astype(int).clip(0, GRID - 1)
        target = np.zeros((5, GRID, GRID), dtype=np.float32)
        target[0, cy, cx] = 1
        target[1, cy, cx] = center[:, 0] - cx
        target[2, cy, cx] = center[:, 1] - cy
        target[3:, cy, cx] = np.log((boxes[:, 2:] - boxes[:, :2]) / STRIDE).T
        return torch.from_numpy(img), torch.from_numpy(target), torch.from_numpy(boxes)


def collate(items):
    images, targets, boxes = zip(*items)
    return torch.stack(images), torch.stack(targets), list(boxes)


def conv(cin, cout, stride=1):
    return nn.Sequential(nn.Conv2d(cin, cout, 3, stride, 1, bias=False), nn.BatchNorm2d(cout), nn.ReLU())


class CarNet(nn.Module):
    def __init__(self, width=24):
        super().__init__()
        self.net = nn.Sequential(conv(3, width // 2, 2), conv(width // 2, width, 2), conv(width, width),
                                 conv(width, 2 * width, 2), conv(2 * width, 2 * width),
                                 nn.Conv2d(2 * width, 5, 1))
        self.net[-1].bias.data[0] = -3.0

    def forward(self, x):
        return self.net(x)


def detection_loss(out, target):
    pos = target[:, 0]
    heat = F.binary_cross_entropy_with_logits(out[:, 0], pos, pos_weight=torch.tensor(4.0))
    reg = (F.smooth_l1_loss(out[:, 1:], target[:, 1:], reduction="none").sum(1) * pos).sum() / pos.sum()
    return heat + reg


def decode(out, top=20):
    score, idx = out[:, 0].flatten(1).sigmoid().topk(top)
    reg = out[:, 1:].flatten(2).gather(2, idx[:, None].expand(-1, 4, -1))
    center = torch.stack([idx % GRID + reg[:, 0], idx // GRID + reg[:, 1]], -1) * STRIDE
    half = reg[:, 2:].clamp(max=2).exp().transpose(1, 2) * STRIDE / 2
    return torch.cat([center - half, center + half], -1), score


def iou(a, b):
    w = (torch.min(a[2], b[2]) - torch.max(a[0], b[0])).clamp(min=0)
    h = (torch.min(a[3], b[3]) - torch.max(a[1], b[1])).clamp(min=0)
    inter = w * h
    return inter / ((a[2] - a[0]) * (a[3] - a[1]) + (b[2] - b[0]) * (b[3] - b[1]) - inter)


def precision_recall(out, truth):
    """Mean precision and recall of the batch at IoU 0.5, after non-maximum suppression."""
    tp = found = total = 0
    for boxes, gt in zip(decode(out.detach())[0], truth):
        keep = []
        for b in boxes:
            if all(iou(b, k) < 0.4 for k in keep):
                keep.append(b)
        free = list(gt)
        for b in keep:
            for j, g in enumerate(free):
                if iou(b, g) > 0.5:
                    free.pop(j)
                    tp += 1
                    break
        found += len(keep)
        total += len(gt)
    return tp / max(found, 1), tp / max(total, 1)


@torch.no_grad()
def validate(model, loader):
    model.eval()
    loss = torch.stack([detection_loss(model(x), t) for x, t, _ in loader]).mean()
    model.train()
    return loss.item()


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int, default=1)
    p.add_argument("--images", type=int, default=1200)
    p.add_argument("--epoch-images", type=int, default=2400, help="images drawn per epoch")
    p.add_argument("--batch-size", type=int, default=8)
    p.add_argument("--workers", type=int, default=2)
    p.add_argument("--lr", type=float, default=2e-3)
    p.add_argument("--log-every", type=int, default=20)
    args = p.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s")
    torch.manual_seed(0)

    table = make_annotations(args.images)
    names = table["image"].map(os.path.basename).unique()
    log.info("%d cars on %d pictures", len(table), len(names))
    train_set = ParkingLots(table, names[:-64], train=True)
    val_set = ParkingLots(table, names[-64:], train=False)
    sampler = torch.utils.data.RandomSampler(train_set, num_samples=args.epoch_images)
    train_loader = DataLoader(train_set, args.batch_size, sampler=sampler, num_workers=args.workers,
                              collate_fn=collate, drop_last=True, persistent_workers=args.workers > 0)
    val_loader = DataLoader(val_set, 16, collate_fn=collate)

    model = CarNet()
    opt = torch.optim.AdamW(model.parameters(), lr=args.lr)
    step, start = 0, time.time()
    for epoch in range(args.epochs):
        for image, target, boxes in train_loader:
            out = model(image)
            loss = detection_loss(out, target)
            opt.zero_grad()
            loss.backward()
            opt.step()
            step += 1
            if step % args.log_every == 0:
                precision, recall = precision_recall(out, boxes)
                log.info("step %d loss %.3f P %.2f R %.2f", step, loss.item(), precision, recall)
        log.info("epoch %d val loss %.4f", epoch, validate(model, val_loader))
    log.info("%d steps, %.1f s", step, time.time() - start)


if __name__ == "__main__":
    main()
