"""Classify plankton images (flow-through microscope) with a small patch mixer, accelerate."""
import argparse
import tempfile
import time
from functools import lru_cache
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch.utils.data import DataLoader, Dataset

SIZE, PATCH, CLASSES = 48, 8, 10
SHARDS, PER_SHARD = 48, 128


def write_shards(folder):
    """One compressed shard per cruise station, as the instrument's export gives them."""
    rng = np.random.default_rng(4)
    yy, xx = np.mgrid[-1:1:SIZE * 1j, -1:1:SIZE * 1j]
    for s in range(SHARDS):
        y = rng.integers(0, CLASSES, PER_SHARD)
        cx, cy = rng.uniform(-0.2, 0.2, (2, PER_SHARD, 1, 1))
        r = np.hypot(xx - cx, (yy - cy) * (1 + y[:, None, None] % 3))
        phi = np.arctan2(yy - cy, xx - cx)
        body = np.exp(-((r - 0.3 - 0.1 * np.cos((y[:, None, None] // 2 + 2) * phi)) / 0.15) ** 2)
        img = 200 - 150 * body + rng.normal(0, 8, body.shape)
        np.savez_compressed(folder / f"station_{s:03d}.npz",
                            images=img.clip(0, 255).astype(np.uint8), labels=y)


@lru_cache(maxsize=None)
def load_station(path):
    with np.load(path) as f:
        return f["images"], f["labels"]


class Plankton(Dataset):
    def __init__(self, folder, shards, augment):
        self.paths = [str(folder / f"station_{s:03d}.npz") for s in shards]
        self.augment = augment

    def __len__(self):
        return len(self.paths) * PER_SHARD

    def __getitem__(self, i):
        images, labels = load_station(self.paths[i // PER_SHARD])
        img = images[i % PER_SHARD]
        if self.augment:
            k = np.random.randint(8)
            img = np.rot90(img, k % 4)
            if k >= 4:
                img = img[:, ::-1]
        return torch.from_numpy(np.ascontiguousarray(img)), int(labels[i % PER_SHARD])


class MixerBlock(nn.Module):
    def __init__(self, tokens, dim):
        super().__init__()
        self.n1, self.n2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.tok = nn.Sequential(nn.Linear(tokens, 72), nn.GELU(), nn.Linear(72, tokens))
        self.chan = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))

    def forward(self, x):
        x = x + self.tok(self.n1(x).transpose(1, 2)).transpose(1, 2)
        return x + self.chan(self.n2(x))


class Mixer(nn.Module):
    def __init__(self, dim=128, depth=4):
        super().__init__()
        tokens = (SIZE // PATCH) ** 2
        self.stem = nn.Linear(PATCH * PATCH, dim)
        self.blocks = nn.Sequential(*[MixerBlock(tokens, dim) for _ in range(depth)])
        self.head = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, CLASSES))

    def forward(self, img):
        x = img.float().div(127.5).sub(1)
        x = x.unfold(1, PATCH, PATCH).unfold(2, PATCH, PATCH).reshape(len(x), -1, PATCH * PATCH)
        return self.head(self.blocks(self.stem(x)).mean(1))


def evaluate(model, loader, accelerator):
    model.eval()
    hits = []
    with torch.no_grad():
        for img, y in loader:
            hits.append(accelerator.gather_for_metrics(model(img).argmax(1) == y))
    model.train()
    return torch.cat(hits).float().mean().item()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=5)
    ap.add_argument("--batch", type=int, default=48)
    args = ap.parse_args()
    accelerator = Accelerator(cpu=True)
    set_seed(9)

    tmp = tempfile.TemporaryDirectory()
    folder = Path(tmp.name)
    write_shards(folder)
    train = DataLoader(Plankton(folder, range(44), True), batch_size=args.batch, shuffle=True, drop_last=True,
                       num_workers=1, persistent_workers=True)
    test = DataLoader(Plankton(folder, range(44, SHARDS), False), batch_size=128)

    model = Mixer()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, weight_decay=0.02, fused=True)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, args.epochs * len(train))
    model, optimizer, train, test, schedule = accelerator.prepare(model, optimizer, train, test, schedule)

    step, start = 0, time.perf_counter()
    for epoch in range(args.epochs):
        for img, y in train:
            loss = F.cross_entropy(model(img), y, label_smoothing=0.05)
            optimizer.zero_grad()
            accelerator.backward(loss)
            accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            step += 1
            if step % 20 == 0:
                accelerator.print(f"epoch {epoch} step {step:5d} loss {loss.item():.4f} "
                                  f"{time.perf_counter() - start:.1f}s", flush=True)
        accelerator.print(f"epoch {epoch} test accuracy {evaluate(model, test, accelerator):.3f}")
    tmp.cleanup()


if __name__ == "__main__":
    main()
