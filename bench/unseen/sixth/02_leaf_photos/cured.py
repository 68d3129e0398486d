"""Leaf species classifier on field photographs."""
import os
import shutil
import tempfile
import time
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from PIL import Image
from torch.utils.data import DataLoader, Dataset


@dataclass
class Config:
    photos: int = 288
    species: int = 6
    photo_size: tuple = (1280, 960)
    resize: int = 112
    crop: int = 96
    batch_size: int = 16
    epochs: int = 16
    lr: float = 0.03
    workers: int = 2
    seed: int = 11


def make_photos(cfg, root):
    rng = np.random.default_rng(cfg.seed)
    paths, labels = [], []
    for i in range(cfg.photos):
        y = i % cfg.species
        coarse = rng.integers(0, 256, (12, 16, 3), dtype=np.uint8)
        coarse[..., y % 3] = coarse[..., y % 3] // 2 + 100
        coarse[:, ::2 + y // 3] //= 2
        img = Image.fromarray(coarse).resize(cfg.photo_size, Image.BICUBIC)
        path = os.path.join(root, f"IMG_{i:04d}.jpg")
        img.save(path, quality=92)
        paths.append(path)
        labels.append(y)
    return paths, labels


class LeafDataset(Dataset):
    def __init__(self, paths, labels, cfg):
        self.paths, self.labels, self.cfg = paths, labels, cfg
        self.thumbs = [self.load(p) for p in paths]

    def __len__(self):
        return len(self.paths)

    def load(self, path):
        img = Image.open(path).convert("RGB")
        return img.resize((self.cfg.resize, self.cfg.resize), Image.BILINEAR)

    def __getitem__(self, i):
        img = self.thumbs[i]
        x0, y0 = torch.randint(0, self.cfg.resize - self.cfg.crop + 1, (2,)).tolist()
        img = img.crop((x0, y0, x0 + self.cfg.crop, y0 + self.cfg.crop))
        if torch.rand(()) < 0.5:
            img = img.transpose(Image.FLIP_LEFT_RIGHT)
        x = torch.from_numpy(np.array(img)).permute(2, 0, 1).float().div_(255)
        return (x - 0.45) / 0.25, self.labels[i]


class Block(nn.Module):
    def __init__(self, cin, cout):
        super().__init__()
        self.conv1 = nn.Conv2d(cin, cout, 3, stride=2, padding=1, bias=False)
        self.bn1 = nn.BatchNorm2d(cout)
        self.conv2 = nn.Conv2d(cout, cout, 3, padding=1, bias=False)
        self.bn2 = nn.BatchNorm2d(cout)
        self.skip = nn.Conv2d(cin, cout, 1, stride=2, bias=False)

    def forward(self, x):
        h = F.relu(self.bn1(self.conv1(x)))
        return F.relu(self.bn2(self.conv2(h)) + self.skip(x))


class LeafNet(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.stem = nn.Conv2d(3, 16, 3, stride=2, padding=1)
        self.blocks = nn.Sequential(Block(16, 32), Block(32, 64), Block(64, 96))
        self.fc = nn.Linear(96, n)

    def forward(self, x):
        return self.fc(self.blocks(F.relu(self.stem(x))).mean((2, 3)))


class Trainer:
    def __init__(self, cfg, paths, labels):
        self.cfg = cfg
        self.model = LeafNet(cfg.species)
        self.opt = torch.optim.SGD(self.model.parameters(), lr=cfg.lr, momentum=0.9,
                                   weight_decay=5e-4, nesterov=True)
        self.loader = DataLoader(LeafDataset(paths, labels, cfg), batch_size=cfg.batch_size,
                                 shuffle=True, num_workers=cfg.workers, persistent_workers=True,
                                 drop_last=True)
        self.sched = torch.optim.lr_scheduler.OneCycleLR(
            self.opt, max_lr=cfg.lr * 2, total_steps=cfg.epochs * len(self.loader))

    def train_epoch(self):
        self.model.train()
        total = 0.0
        for x, y in self.loader:
            loss = F.cross_entropy(self.model(x), y, label_smoothing=0.1)
            self.opt.zero_grad(set_to_none=True)
            loss.backward()
            self.opt.step()
            self.sched.step()
            total += loss.item()
        return total / len(self.loader)

    def fit(self):
        for epoch in range(self.cfg.epochs):
            start = time.time()
            loss = self.train_epoch()
            print(f"[{epoch + 1}/{self.cfg.epochs}] loss={loss:.4f} ({time.time() - start:.1f}s)", flush=True)


def main():
    cfg = Config()
    torch.manual_seed(cfg.seed)
    root = tempfile.mkdtemp(prefix="leaves_")
    try:
        paths, labels = make_photos(cfg, root)
        Trainer(cfg, paths, labels).fit()
    finally:
        shutil.rmtree(root, ignore_errors=True)


if __name__ == "__main__":
    main()
