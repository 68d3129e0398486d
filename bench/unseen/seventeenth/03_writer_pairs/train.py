"""Same-writer verification on handwriting patches (questioned document desk).

Scans are cut into patches per writing session; one archive per session holds the patches
and what the examiner noted about them. A Siamese network learns whether two patches
come from the same hand.
"""
import argparse
import csv
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

PATCH = 64


def pen_strokes(rng, slant, curl, weight):
    """One synthetic patch: a few strokes with the writer's slant, curl and pen pressure."""
    canvas = np.zeros((PATCH, PATCH), dtype=np.float32)
    t = np.linspace(0, 1, 90)
    for _ in range(rng.integers(4, 7)):
        x0, y0 = rng.uniform(8, PATCH - 24, size=2)
        phase = rng.uniform(0, 2 * np.pi)
        y = y0 + 22 * t + 3 * np.sin(curl * t + phase)
        x = x0 + slant * 22 * t + 6 * np.cos(curl * t + phase)
        xi = np.clip(x, 0, PATCH - 1).astype(int)
        yi = np.clip(y, 0, PATCH - 1).astype(int)
        canvas[yi, xi] += weight
        canvas[yi, np.clip(xi + 1, 0, PATCH - 1)] += weight * 0.6
    paper = rng.normal(18, 5, size=canvas.shape)
    return np.clip(canvas * 90 + paper, 0, 255).astype(np.uint8)


def make_sessions(root, writers, sessions_per_writer, patches, seed):
    rng = np.random.default_rng(seed)
    for w in range(writers):
        slant, curl, weight = rng.uniform(-0.6, 0.9), rng.uniform(4, 16), rng.uniform(0.7, 2.0)
        for s in range(sessions_per_writer):
            drift = rng.normal(0, 0.05)
            images = np.stack([pen_strokes(rng, slant + drift, curl, weight) for _ in range(patches)])
            np.savez_compressed(
                root / f"writer{w:03d}_session{s}.npz",
                patches=images,
                writer=np.int64(w),
                pressure=rng.normal(weight, 0.1, size=patches).astype(np.float32),
            )


class PairDataset(Dataset):
    """Pairs of patches, half of them from the same writer (other session where possible)."""

    def __init__(self, root, n_pairs, seed, augment=False):
        self.sessions = [np.load(p) for p in sorted(Path(root).glob("*.npz"))]
        self.writers = np.array([int(s["writer"]) for s in self.sessions])
        self.counts = [len(s["pressure"]) for s in self.sessions]
        self.n_pairs = n_pairs
        self.seed = seed
        self.augment = augment

    def __len__(self):
        return self.n_pairs

    def patch(self, session, rng):
        k = rng.integers(self.counts[session])
        image = self.sessions[session]["patches"][k].astype(np.float32) / 255.0
        pressure = self.sessions[session]["pressure"][k]
        if self.augment:
            image = np.roll(image, rng.integers(-4, 5, size=2), axis=(0, 1))
            image = image * rng.uniform(0.85, 1.15)
        return torch.from_numpy(image.astype(np.float32))[None], torch.tensor(float(pressure))

    def __getitem__(self, i):
        rng = np.random.default_rng((self.seed, i))
        first = rng.integers(len(self.sessions))
        same = i % 2 == 0
        pool = np.flatnonzero((self.writers == self.writers[first]) == same)
        second = rng.choice(pool)
        a, pa = self.patch(first, rng)
        b, pb = self.patch(second, rng)
        return a, b, torch.stack([pa, pb]), torch.tensor(float(same))


def conv_block(cin, cout):
    return nn.Sequential(
        nn.Conv2d(cin, cout, 3, padding=1, bias=False), nn.BatchNorm2d(cout), nn.ReLU(inplace=True), nn.MaxPool2d(2)
    )


class HandEncoder(nn.Module):
    def __init__(self, dim=64):
        super().__init__()
        self.features = nn.Sequential(conv_block(1, 16), conv_block(16, 32), conv_block(32, 64), conv_block(64, 96))
        self.project = nn.Linear(96 + 1, dim)

    def forward(self, image, pressure):
        h = self.features(image).mean(dim=(2, 3))
        return F.normalize(self.project(torch.cat([h, pressure[:, None]], dim=1)), dim=1)


class Verifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.encoder = HandEncoder()
        self.scale = nn.Parameter(torch.tensor(5.0))
        self.shift = nn.Parameter(torch.tensor(-2.0))

    def forward(self, a, b, pressure):
        z = self.encoder(torch.cat([a, b]), torch.cat([pressure[:, 0], pressure[:, 1]]))
        za, zb = z.chunk(2)
        return self.scale * (za * zb).sum(dim=1) + self.shift


@torch.no_grad()
def equal_error_rate(model, loader):
    model.eval()
    scores, labels = [], []
    for a, b, pressure, same in loader:
        scores.append(model(a, b, pressure))
        labels.append(same)
    model.train()
    s, y = torch.cat(scores).numpy(), torch.cat(labels).numpy()
    order = np.argsort(-s)
    y = y[order]
    far = np.cumsum(1 - y) / max((1 - y).sum(), 1)
    frr = 1 - np.cumsum(y) / max(y.sum(), 1)
    k = np.argmin(np.abs(far - frr))
    return float((far[k] + frr[k]) / 2)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--pairs", type=int, default=2880)
    parser.add_argument("--batch-size", type=int, default=24)
    parser.add_argument("--lr", type=float, default=2e-3)
    parser.add_argument("--writers", type=int, default=12)
    args = parser.parse_args()
    torch.manual_seed(0)

    tmp = tempfile.TemporaryDirectory(prefix="qd_")
    root = Path(tmp.name)
    for name, seed in (("train", 21), ("valid", 22)):
        (root / name).mkdir()
        make_sessions(root / name, args.writers, 2, 48, seed)

    train_loader = DataLoader(
        PairDataset(root / "train", args.pairs, seed=1, augment=True), batch_size=args.batch_size, shuffle=True
    )
    valid_loader = DataLoader(PairDataset(root / "valid", 240, seed=2), batch_size=48)

    model = Verifier()
    optimizer = torch.optim.Adam(model.parameters(), lr=args.lr)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, args.epochs * len(train_loader))
    log_file = open(root / "log.csv", "w", newline="")
    log = csv.writer(log_file)
    log.writerow(["epoch", "loss", "accuracy", "eer", "seconds"])

    best = 1.0
    for epoch in range(args.epochs):
        start = time.perf_counter()
        total, hits, seen = 0.0, 0, 0
        for step, (a, b, pressure, same) in enumerate(train_loader):
            logits = model(a, b, pressure)
            loss = F.binary_cross_entropy_with_logits(logits, same)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            scheduler.step()
            total += loss.item() * len(same)
            hits += ((logits > 0) == (same > 0.5)).sum().item()
            seen += len(same)
            if step % 50 == 0:
                print(f"[{epoch}:{step:4d}/{len(train_loader)}] loss {loss.item():.4f}", flush=True)
        eer = equal_error_rate(model, valid_loader)
        seconds = time.perf_counter() - start
        log.writerow([epoch, total / seen, hits / seen, eer, seconds])
        log_file.flush()
        print(f"epoch {epoch}: loss {total / seen:.4f} acc {hits / seen:.3f} EER {eer:.3f} ({seconds:.1f} s)")
        if eer < best:
            best = eer
            torch.save({"model": model.state_dict(), "eer": eer, "epoch": epoch}, root / "best.pt")
    log_file.close()
    print(f"best EER {best:.3f}")
    tmp.cleanup()


if __name__ == "__main__":
    main()
