"""Galaxy morphology: a small CNN on survey cut-outs (JPEG files), with gradient accumulation."""
import argparse
import csv
import os
import tempfile
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from PIL import Image
from torch.utils.data import DataLoader, Dataset, WeightedRandomSampler

SIDE, CROP = 168, 64
KINDS = ["elliptical", "spiral", "edge-on", "ring"]


def draw(rng, kind):
    y, x = np.mgrid[-1:1:SIDE * 1j, -1:1:SIDE * 1j].astype(np.float32)
    turn = rng.uniform(0, np.pi)
    u, v = x * np.cos(turn) + y * np.sin(turn), -x * np.sin(turn) + y * np.cos(turn)
    flat = {0: 0.75, 1: 0.8, 2: 0.18, 3: 0.9}[kind] * rng.uniform(0.85, 1.1)
    r = np.sqrt(u ** 2 + (v / flat) ** 2)
    light = np.exp(-r / rng.uniform(0.10, 0.18))
    if kind == 1:
        light = light * (1 + 0.9 * np.cos(2 * np.arctan2(v, u) + 9 * r + rng.uniform(0, 6)))
    if kind == 3:
        light = 0.5 * light + 0.4 * np.exp(-((r - 0.45) / 0.08) ** 2)
    tint = np.array([1.0, 0.85, 0.7], np.float32) * rng.uniform(0.8, 1.2, 3)
    img = 200 * light[..., None] * tint + rng.normal(18, 6, (SIDE, SIDE, 3))
    return Image.fromarray(np.clip(img, 0, 255).astype(np.uint8))


def make_survey(folder, n, seed=0):
    rng = np.random.default_rng(seed)
    rows = []
    for i in range(n):
        kind = int(rng.integers(len(KINDS)))
        path = os.path.join(folder, f"{i:05d}.jpg")
        draw(rng, kind).save(path, quality=92)
        rows.append((path, kind))
    return rows


class Cutouts(Dataset):
    def __init__(self, rows, train):
        self.rows, self.train = rows, train

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        path, kind = self.rows[i]
        img = Image.open(path).convert("RGB")
        if self.train:
            turn, zoom = float(torch.rand(1)) * 360, 0.8 + 0.4 * float(torch.rand(1))
            img = img.rotate(turn, Image.Resampling.BICUBIC)
            half = 0.5 * 101 * zoom
            c = SIDE / 2
            img = img.resize((CROP, CROP), Image.Resampling.BILINEAR, box=(c - half, c - half, c + half, c + half))
        else:
            img = img.resize((CROP, CROP), Image.Resampling.BILINEAR, box=(34, 34, 134, 134))
        return torch.from_numpy(np.array(img)).permute(2, 0, 1), kind


def block(cin, cout):
    return nn.Sequential(nn.Conv2d(cin, cout, 3, padding=1, bias=False), nn.BatchNorm2d(cout),
                         nn.ReLU(inplace=True), nn.MaxPool2d(2))


def network():
    return nn.Sequential(block(3, 20), block(20, 40), block(40, 80), block(80, 128),
                         nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, len(KINDS)))


def prepare(x):
    return x.float().div_(255).sub_(0.15).div_(0.2).contiguous(memory_format=torch.channels_last)


@torch.no_grad()
def accuracy(model, loader):
    model.eval()
    right = sum((model(prepare(x)).argmax(1) == y).sum().item() for x, y in loader)
    model.train()
    return right / len(loader.dataset)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=560)
    ap.add_argument("--images", type=int, default=960)
    ap.add_argument("--batch", type=int, default=32)
    ap.add_argument("--accumulate", type=int, default=2)
    args = ap.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(1)      # the other core reads the images

    with tempfile.TemporaryDirectory(prefix="galaxies_") as folder:
        rows = make_survey(folder, args.images)
        held, rows = rows[:96], rows[96:]
        kinds = np.array([kind for _, kind in rows])
        rarity = 1.0 / np.bincount(kinds, minlength=len(KINDS))[kinds]
        sampler = WeightedRandomSampler(rarity, num_samples=args.steps * args.batch)
        loader = DataLoader(Cutouts(rows, True), batch_size=args.batch, sampler=sampler,
                            num_workers=1, prefetch_factor=4)
        check = DataLoader(Cutouts(held, False), batch_size=96)
        model = network().to(memory_format=torch.channels_last)
        opt = torch.optim.AdamW(model.parameters(), lr=2e-3, weight_decay=1e-2, fused=True)
        log_file = open(os.path.join(folder, "log.csv"), "w", newline="")
        log = csv.writer(log_file)
        log.writerow(["step", "loss", "accuracy", "seconds"])

        right, seen = 0, 0
        start = time.perf_counter()
        for step, (x, y) in enumerate(loader, 1):
            logits = model(prepare(x))
            loss = F.cross_entropy(logits, y, label_smoothing=0.05)
            (loss / args.accumulate).backward()
            if step % args.accumulate == 0:
                nn.utils.clip_grad_norm_(model.parameters(), 2.0)
                opt.step()
                opt.zero_grad()
            hit = (logits.argmax(1) == y).sum().item()
            right, seen = right + hit, seen + len(y)
            log.writerow([step, f"{loss.item():.4f}", hit / len(y), f"{time.perf_counter() - start:.2f}"])
            if step % 50 == 0:
                took = time.perf_counter() - start
                print(f"step {step:4d}  loss {loss.item():.4f}  acc {right / seen:.3f}  "
                      f"{1000 * took / step:.1f} ms/step", flush=True)
                right, seen = 0, 0
        print(f"held-out accuracy {accuracy(model, check):.3f}")
        print(f"done: {step} steps in {time.perf_counter() - start:.1f} s")
        log_file.close()


if __name__ == "__main__":
    main()
