"""Classify scanned shapes from point clouds with a PointNet that sees local neighbourhoods.

    python train.py --epochs 6
"""
import argparse
import json
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

SHAPES = ["sphere", "cube", "cylinder", "cone", "torus", "plane", "helix", "capsule"]


def sample_shape(name, n, rng):
    u, v = rng.random(n), rng.random(n)
    a = 2 * np.pi * u
    if name == "sphere":
        p = rng.normal(size=(n, 3))
        p /= np.linalg.norm(p, axis=1, keepdims=True)
    elif name == "cube":
        p = rng.uniform(-1, 1, (n, 3))
        p[np.arange(n), rng.integers(0, 3, n)] = rng.choice([-1.0, 1.0], n)
    elif name == "cylinder":
        p = np.stack([np.cos(a), np.sin(a), 2 * v - 1], 1)
    elif name == "cone":
        r = np.sqrt(v)
        p = np.stack([r * np.cos(a), r * np.sin(a), 1 - 2 * r], 1)
    elif name == "torus":
        b = 2 * np.pi * v
        r = 0.75 + 0.25 * np.cos(b)
        p = np.stack([r * np.cos(a), r * np.sin(a), 0.25 * np.sin(b)], 1)
    elif name == "plane":
        p = np.stack([2 * u - 1, 2 * v - 1, 0.1 * np.sin(6 * u)], 1)
    elif name == "helix":
        p = np.stack([0.7 * np.cos(3 * a), 0.7 * np.sin(3 * a), 2 * u - 1], 1)
        p += rng.normal(0, 0.06, p.shape)
    else:
        z = rng.uniform(-1, 1, n)
        r = np.sqrt(np.clip(1 - np.clip(np.abs(z) - 0.5, 0, None) ** 2 / 0.25, 0, 1)) * 0.5
        p = np.stack([r * np.cos(a), r * np.sin(a), z], 1)
    return p


class Scans(Dataset):
    """Labelled clouds; training items get a random rotation, scale and jitter."""

    def __init__(self, count, points, seed, augment):
        rng = np.random.default_rng(seed)
        self.labels = torch.from_numpy(rng.integers(0, len(SHAPES), count))
        clouds = np.empty((count, points, 3), dtype=np.float32)
        for i, label in enumerate(self.labels.tolist()):
            clouds[i] = sample_shape(SHAPES[label], points, rng) * rng.uniform(0.7, 1.3, 3)
        clouds += rng.normal(0, 0.03, clouds.shape).astype(np.float32)
        self.clouds = torch.from_numpy(clouds)
        self.augment = augment

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, i):
        cloud = self.clouds[i]
        if self.augment:
            q, _ = torch.linalg.qr(torch.randn(3, 3))
            cloud = cloud @ q * (0.8 + 0.4 * torch.rand(1)) + 0.01 * torch.randn_like(cloud)
        return cloud, self.labels[i]


class EdgeConv(nn.Module):
    def __init__(self, cin, cout, k):
        super().__init__()
        self.k = k
        self.centre = nn.Linear(cin, cout)
        self.offset = nn.Linear(cin, cout, bias=False)
        self.norm = nn.LayerNorm(cout)

    def forward(self, x):
        with torch.no_grad():
            near = torch.cdist(x, x).topk(self.k, dim=2, largest=False).indices
        b, n, _ = x.shape
        value = self.offset(x)
        flat = near + torch.arange(b)[:, None, None] * n
        gathered = value.reshape(b * n, -1)[flat.reshape(-1)].view(b, n, self.k, -1)
        best = gathered.amax(dim=2)
        return F.relu(self.norm(self.centre(x) - value + best))


class CloudNet(nn.Module):
    def __init__(self, classes, width, k):
        super().__init__()
        self.e1 = EdgeConv(3, width, k)
        self.e2 = EdgeConv(width, 2 * width, k)
        self.mix = nn.Linear(3 * width, 256)
        self.head = nn.Sequential(nn.Linear(512, 128), nn.ReLU(), nn.Dropout(0.3), nn.Linear(128, classes))

    def forward(self, x):
        a = self.e1(x)
        b = self.e2(a)
        h = F.relu(self.mix(torch.cat([a, b], 2)))
        return self.head(torch.cat([h.amax(1), h.mean(1)], 1))


@torch.no_grad()
def validate(model, loader):
    model.eval()
    right, total = torch.zeros((), dtype=torch.long), 0
    for cloud, label in loader:
        right += (model(cloud).argmax(1) == label).sum()
        total += len(label)
    model.train()
    return right.item() / total


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--clouds", type=int, default=1600)
    p.add_argument("--points", type=int, default=160)
    p.add_argument("--epochs", type=int, default=6)
    p.add_argument("--batch-size", type=int, default=16)
    p.add_argument("--width", type=int, default=32)
    p.add_argument("--k", type=int, default=10)
    p.add_argument("--lr", type=float, default=2e-3)
    p.add_argument("--workers", type=int, default=2)
    p.add_argument("--log-every", type=int, default=50)
    p.add_argument("--seed", type=int, default=0)
    args = p.parse_args()
    torch.manual_seed(args.seed)
    torch.set_num_threads(2)

    train = DataLoader(Scans(args.clouds, args.points, 1, True), batch_size=args.batch_size, shuffle=True,
                       drop_last=True, num_workers=args.workers, persistent_workers=args.workers > 0)
    valid = DataLoader(Scans(160, args.points, 2, False), batch_size=32)
    model = CloudNet(len(SHAPES), args.width, args.k)
    opt = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=0.05)
    total = args.epochs * len(train)
    sched = torch.optim.lr_scheduler.OneCycleLR(opt, args.lr, total_steps=total)

    step, started, running = 0, time.time(), torch.zeros(())
    for epoch in range(args.epochs):
        for cloud, label in train:
            loss = F.cross_entropy(model(cloud), label, label_smoothing=0.1)
            opt.zero_grad(set_to_none=True)
            loss.backward()
            opt.step()
            sched.step()
            running += loss.detach()
            step += 1
            if step % args.log_every == 0:
                print(json.dumps({"step": step, "of": total, "loss": round(running.item() / args.log_every, 4),
                                  "clouds_per_s": round(step * args.batch_size / (time.time() - started))}),
                      flush=True)
                running.zero_()
        print(json.dumps({"epoch": epoch, "valid_acc": round(validate(model, valid), 4)}), flush=True)
    torch.save(model.state_dict(), "/tmp/cloudnet.pt")


if __name__ == "__main__":
    main()
