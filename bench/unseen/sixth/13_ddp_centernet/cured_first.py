"""CenterNet-style detector on synthetic warehouse crates, data parallel over processes.

    torchrun --standalone --nproc_per_node 2 train.py
"""
import argparse
import math
import time

import numpy as np
import torch
import torch.distributed as dist
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset, DistributedSampler

N_CLASSES, STRIDE = 3, 4


def draw_gaussian(heatmap, cx, cy, radius):
    sigma = radius / 3.0
    h, w = heatmap.shape
    for y in range(h):
        for x in range(w):
            v = math.exp(-((x - cx) ** 2 + (y - cy) ** 2) / (2 * sigma * sigma))
            if v > heatmap[y, x]:
                heatmap[y, x] = v


class Crates(Dataset):
    def __init__(self, n, size, seed):
        rng = np.random.default_rng(seed)
        self.size = size
        self.images = (rng.random((n, size, size)) * 60).astype(np.uint8)
        self.boxes = []
        for i in range(n):
            boxes = []
            for _ in range(rng.integers(16, 28)):
                w, h = rng.integers(8, 20, 2)
                x, y = rng.integers(0, size - w), rng.integers(0, size - h)
                c = int(rng.integers(N_CLASSES))
                self.images[i, y:y + h, x:x + w] = 110 + 60 * c
                boxes.append((x + w / 2, y + h / 2, w, h, c))
            self.boxes.append(boxes)

    def __len__(self):
        return len(self.images)

    def encode(self, boxes):
        n = self.size // STRIDE
        heat = np.zeros((N_CLASSES, n, n), dtype=np.float32)
        wh = np.zeros((2, n, n), dtype=np.float32)
        for cx, cy, w, h, c in boxes:
            gx, gy = int(cx / STRIDE), int(cy / STRIDE)
            draw_gaussian(heat[c], gx, gy, radius=max(2.0, math.sqrt(w * h) / STRIDE))
            wh[:, gy, gx] = w / STRIDE, h / STRIDE
        return heat, wh

    def __getitem__(self, i):
        image = torch.from_numpy(self.images[i]).float().div(255).unsqueeze(0)
        heat, wh = self.encode(self.boxes[i])
        return image, torch.from_numpy(heat), torch.from_numpy(wh)


class Residual(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(c, c, 3, padding=1), nn.Conv2d(c, c, 3, padding=1)
        self.norm1, self.norm2 = nn.GroupNorm(4, c), nn.GroupNorm(4, c)

    def forward(self, x):
        return F.relu(x + self.norm2(self.conv2(F.relu(self.norm1(self.conv1(x))))))


class CenterNet(nn.Module):
    def __init__(self, width=12, depth=12):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(1, width, 4, stride=4), nn.ReLU())
        self.body = nn.Sequential(*[Residual(width) for _ in range(depth)])
        self.heat, self.wh = nn.Conv2d(width, N_CLASSES, 1), nn.Conv2d(width, 2, 1)
        nn.init.constant_(self.heat.bias, -2.2)

    def forward(self, x):
        h = self.body(self.stem(x))
        return self.heat(h), self.wh(h)


def detection_loss(heat, wh, gt_heat, gt_wh):
    p = heat.sigmoid().clamp(1e-4, 1 - 1e-4)
    pos = (gt_heat == 1).float()
    focal = -(pos * (1 - p) ** 2 * p.log() + (1 - pos) * (1 - gt_heat) ** 4 * p ** 2 * (1 - p).log())
    at = (gt_wh > 0).float()
    return focal.sum() / pos.sum().clamp(min=1) + 0.1 * ((wh - gt_wh).abs() * at).sum() / at.sum().clamp(min=1)


def average_gradients(model, world):
    grads = [p.grad for p in model.parameters() if p.grad is not None]
    flat = torch._utils._flatten_dense_tensors(grads)
    dist.all_reduce(flat, op=dist.ReduceOp.SUM)
    flat /= world
    torch._foreach_copy_(grads, list(torch._utils._unflatten_dense_tensors(flat, grads)))


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--images", type=int, default=256)
    ap.add_argument("--size", type=int, default=96)
    ap.add_argument("--batch-size", type=int, default=8)
    ap.add_argument("--epochs", type=int, default=20)
    ap.add_argument("--lr", type=float, default=1e-3)
    args = ap.parse_args()
    dist.init_process_group("gloo")
    rank, world = dist.get_rank(), dist.get_world_size()
    torch.manual_seed(31)

    dataset = Crates(args.images, args.size, seed=31)
    sampler = DistributedSampler(dataset, shuffle=True, drop_last=True)
    loader = DataLoader(dataset, batch_size=args.batch_size, sampler=sampler)
    model = CenterNet()
    opt = torch.optim.AdamW(model.parameters(), lr=args.lr, fused=True)
    start = time.time()
    for epoch in range(args.epochs):
        sampler.set_epoch(epoch)
        for image, gt_heat, gt_wh in loader:
            heat, wh = model(image)
            loss = detection_loss(heat, wh, gt_heat, gt_wh)
            opt.zero_grad()
            loss.backward()
            average_gradients(model, world)
            opt.step()
        if rank == 0:
            print(f"epoch {epoch} loss {loss.item():.4f} ({time.time() - start:.1f}s)", flush=True)
    dist.barrier()
    dist.destroy_process_group()
    time.sleep(0.5)


if __name__ == "__main__":
    main()
