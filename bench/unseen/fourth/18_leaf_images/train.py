"""Leaf shape classification from JPEG files: PIL augmentation in a worker, small CNN."""
import argparse
import math
import os
import random
import shutil
import tempfile
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from PIL import Image, ImageDraw, ImageEnhance
from torch.utils.data import DataLoader, Dataset

SHAPES = ["ovate", "lobed", "palmate", "needle", "heart"]
SIZE = 64


def draw_leaf(kind, rng):
    img = Image.new("RGB", (80, 80), tuple(rng.randrange(150, 240) for _ in range(3)))
    d = ImageDraw.Draw(img)
    green = (rng.randrange(20, 90), rng.randrange(90, 180), rng.randrange(20, 80))
    cx, cy, phase = 40 + rng.randrange(-6, 7), 40 + rng.randrange(-6, 7), rng.uniform(0, 6.28)
    pts = []
    for k in range(60):
        a = 2 * math.pi * k / 60
        r = {
            "ovate": 24 / math.sqrt(1 + 1.2 * math.sin(a) ** 2),
            "lobed": 20 + 4 * math.sin(7 * a),
            "palmate": 16 + 12 * abs(math.cos(2.5 * a)),
            "needle": 30 / math.sqrt(1 + 30 * math.sin(a) ** 2),
            "heart": 15 + 9 * math.sin(a) * abs(math.cos(a)) + 6 * abs(math.cos(a)),
        }[kind]
        r *= rng.uniform(0.93, 1.07)
        pts.append((cx + r * math.cos(a + phase), cy + r * math.sin(a + phase)))
    d.polygon(pts, fill=green)
    return img


def write_images(root, n, seed):
    rng = random.Random(seed)
    items = []
    for i in range(n):
        label = rng.randrange(len(SHAPES))
        path = os.path.join(root, f"{seed}_{i:05d}.jpg")
        draw_leaf(SHAPES[label], rng).save(path, quality=90)
        items.append((path, label))
    return items


class LeafDataset(Dataset):
    def __init__(self, items, train):
        self.items, self.train = items, train

    def __len__(self):
        return len(self.items)

    def augment(self, img):
        dx, dy = random.randint(0, 80 - SIZE), random.randint(0, 80 - SIZE)
        img = img.crop((dx, dy, dx + SIZE, dy + SIZE))
        if random.random() < 0.5:
            img = img.transpose(Image.Transpose.FLIP_LEFT_RIGHT)
        img = ImageEnhance.Brightness(img).enhance(random.uniform(0.8, 1.2))
        return ImageEnhance.Color(img).enhance(random.uniform(0.7, 1.3))

    def __getitem__(self, i):
        path, label = self.items[i]
        with Image.open(path) as f:
            img = f.convert("RGB")
        img = self.augment(img) if self.train else img.crop((8, 8, 8 + SIZE, 8 + SIZE))
        x = torch.from_numpy(np.array(img)).permute(2, 0, 1).contiguous()
        return x, label


def block(c_in, c_out):
    return nn.Sequential(
        nn.Conv2d(c_in, c_out, 3, padding=1, bias=False), nn.BatchNorm2d(c_out), nn.ReLU(inplace=True),
        nn.Conv2d(c_out, c_out, 3, padding=1, bias=False), nn.BatchNorm2d(c_out), nn.ReLU(inplace=True),
        nn.MaxPool2d(2),
    )


class Experiment:
    def __init__(self, args, workdir):
        self.args, self.workdir = args, workdir
        train_items = write_images(workdir, args.images, seed=1)
        val_items = write_images(workdir, 160, seed=2)
        common = dict(num_workers=1, persistent_workers=True, prefetch_factor=4)
        self.train_loader = DataLoader(
            LeafDataset(train_items, True), args.batch, shuffle=True, drop_last=True, **common
        )
        self.val_loader = DataLoader(LeafDataset(val_items, False), 40, **common)
        self.model = nn.Sequential(
            block(3, 24), block(24, 48), block(48, 96),
            nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(96, len(SHAPES)),
        ).to(memory_format=torch.channels_last)
        self.opt = torch.optim.SGD(self.model.parameters(), lr=args.lr, momentum=0.9, weight_decay=1e-4)
        steps = args.epochs * len(self.train_loader)
        self.sched = torch.optim.lr_scheduler.OneCycleLR(self.opt, args.lr, total_steps=steps)
        self.best = 0.0

    def to_input(self, x):
        return x.to(memory_format=torch.channels_last, dtype=torch.float32).div_(127.5).sub_(1.0)

    def run(self):
        start, step = time.time(), 0
        for epoch in range(self.args.epochs):
            self.model.train()
            for x, y in self.train_loader:
                loss = F.cross_entropy(self.model(self.to_input(x)), y, label_smoothing=0.05)
                self.opt.zero_grad(set_to_none=True)
                loss.backward()
                self.opt.step()
                self.sched.step()
                step += 1
                if step % 20 == 0:
                    print(f"  step {step} loss {loss.item():.3f} lr {self.sched.get_last_lr()[0]:.4f}", flush=True)
            acc = self.validate()
            if acc > self.best:
                self.best = acc
                torch.save(self.model.state_dict(), os.path.join(self.workdir, "best.pt"))
            print(f"epoch {epoch}: val acc {acc:.3f} (best {self.best:.3f}), {step / (time.time() - start):.2f} it/s")

    @torch.inference_mode()
    def validate(self):
        self.model.eval()
        hits = sum((self.model(self.to_input(x)).argmax(1) == y).sum().item() for x, y in self.val_loader)
        return hits / len(self.val_loader.dataset)


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--images", type=int, default=1300)
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--lr", type=float, default=0.05)
    args = parser.parse_args()
    torch.manual_seed(0)
    random.seed(0)
    workdir = tempfile.mkdtemp(prefix="leaves_")
    try:
        Experiment(args, workdir).run()
    finally:
        shutil.rmtree(workdir)
