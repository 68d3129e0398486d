"""Beat classification on two-lead ECG: one .npz file per patient, each with the
cut-out beats, their labels and the RR intervals.  1-D residual network.
"""
import argparse
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

LEADS, LENGTH, CLASSES = 2, 256, 5


def write_patients(folder, patients, beats, seed):
    rng = np.random.default_rng(seed)
    t = np.linspace(-1, 1, LENGTH, dtype=np.float32)
    widths = np.array([0.05, 0.09, 0.14, 0.07, 0.20], dtype=np.float32)
    shifts = np.array([0.0, -0.1, 0.05, 0.15, -0.05], dtype=np.float32)
    for p in range(patients):
        label = rng.choice(CLASSES, size=beats, p=[0.5, 0.15, 0.15, 0.1, 0.1])
        w = (widths[label] * rng.uniform(0.8, 1.25, beats)).astype(np.float32)[:, None]
        s = (shifts[label] + rng.normal(0, 0.03, beats)).astype(np.float32)[:, None]
        r_wave = np.exp(-((t - s) / w) ** 2)
        t_wave = 0.3 * np.exp(-((t - s - 0.5) / 0.15) ** 2)
        lead = r_wave + t_wave
        wave = np.stack([lead, -0.6 * lead], axis=1)
        wave += 0.15 * rng.standard_normal(wave.shape, dtype=np.float32)
        np.savez(folder / f"patient{p:03d}.npz", beats=wave, label=label.astype(np.int64),
                 rr=rng.normal(0.8, 0.1, (beats, 2)).astype(np.float32))


class BeatDataset(Dataset):
    def __init__(self, folder, train=True):
        self.train = train
        self.records = [np.load(f) for f in sorted(Path(folder).glob("*.npz"))]
        self.index = [(r, b) for r, rec in enumerate(self.records) for b in range(len(rec["label"]))]
        self.labels = np.concatenate([rec["label"] for rec in self.records])
        self.rr = np.concatenate([rec["rr"] for rec in self.records])

    def __len__(self):
        return len(self.index)

    def __getitem__(self, i):
        r, b = self.index[i]
        wave = self.records[r]["beats"][b]
        if self.train:
            wave = np.roll(wave, np.random.randint(-8, 9), axis=-1) * np.float32(np.random.uniform(0.9, 1.1))
        return torch.from_numpy(wave), torch.from_numpy(self.rr[i]), int(self.labels[i])


class ResBlock(nn.Module):
    def __init__(self, cin, cout, stride=1):
        super().__init__()
        self.conv1 = nn.Conv1d(cin, cout, 7, stride, 3, bias=False)
        self.bn1 = nn.BatchNorm1d(cout)
        self.conv2 = nn.Conv1d(cout, cout, 7, 1, 3, bias=False)
        self.bn2 = nn.BatchNorm1d(cout)
        self.skip = nn.Conv1d(cin, cout, 1, stride, bias=False) if stride > 1 or cin != cout else nn.Identity()

    def forward(self, x):
        y = torch.relu(self.bn1(self.conv1(x)))
        return torch.relu(self.bn2(self.conv2(y)) + self.skip(x))


class BeatNet(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.body = nn.Sequential(ResBlock(LEADS, width, 2), ResBlock(width, width),
                                  ResBlock(width, 2 * width, 2), ResBlock(2 * width, 2 * width),
                                  ResBlock(2 * width, 4 * width, 2))
        self.head = nn.Sequential(nn.Linear(4 * width + 2, 64), nn.ReLU(), nn.Linear(64, CLASSES))

    def forward(self, wave, rr):
        return self.head(torch.cat([self.body(wave).mean(-1), rr], dim=1))


@torch.no_grad()
def evaluate(model, loader, batches):
    model.eval()
    hits = total = 0
    for n, (wave, rr, y) in enumerate(loader):
        if n == batches:
            break
        hits += (model(wave, rr).argmax(1) == y).sum()
        total += len(y)
    model.train()
    return float(hits) / total


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=500)
    ap.add_argument("--batch", type=int, default=48)
    ap.add_argument("--workers", type=int, default=0)
    args = ap.parse_args()
    torch.manual_seed(0)
    np.random.seed(0)

    with tempfile.TemporaryDirectory() as tmp:
        for part, patients, seed in (("train", 48, 1), ("val", 6, 2)):
            (Path(tmp) / part).mkdir()
            write_patients(Path(tmp) / part, patients, beats=700, seed=seed)
        train = DataLoader(BeatDataset(Path(tmp) / "train"), args.batch, shuffle=True,
                           drop_last=True, num_workers=args.workers)
        val = DataLoader(BeatDataset(Path(tmp) / "val", train=False), 64)

        model = BeatNet()
        opt = torch.optim.AdamW(model.parameters(), lr=1e-3)
        sched = torch.optim.lr_scheduler.OneCycleLR(opt, 2e-3, total_steps=args.steps)
        step, start = 0, time.time()
        while step < args.steps:
            for wave, rr, y in train:
                loss = nn.functional.cross_entropy(model(wave, rr), y, label_smoothing=0.05)
                opt.zero_grad()
                loss.backward()
                opt.step()
                sched.step()
                step += 1
                if step % 50 == 0:
                    print(f"step {step} loss {loss.item():.4f} {time.time() - start:.1f}s", flush=True)
                if step >= args.steps:
                    break
        print("val accuracy", evaluate(model, val, 10))


if __name__ == "__main__":
    main()
