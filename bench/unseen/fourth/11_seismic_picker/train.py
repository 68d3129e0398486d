"""P-wave arrival picking on short three-component seismograms.

The windows are cut beforehand and stored in one archive (waveforms, arrival sample,
station id), the network predicts the arrival position as a fraction of the window.
"""
import argparse
import os
import tempfile
import time

import numpy as np
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset, random_split


def parse_args():
    p = argparse.ArgumentParser()
    p.add_argument("--events", type=int, default=1500)
    p.add_argument("--length", type=int, default=240)
    p.add_argument("--epochs", type=int, default=14)
    p.add_argument("--batch-size", type=int, default=32)
    p.add_argument("--lr", type=float, default=2e-3)
    p.add_argument("--seed", type=int, default=11)
    return p.parse_args()


def make_archive(path, n, length, seed):
    """Synthetic stand-in for the cut windows: noise, then a decaying wavelet."""
    rng = np.random.default_rng(seed)
    t = np.arange(length)
    waves = rng.normal(0, 0.25, size=(n, 3, length)).astype(np.float32)
    onset = rng.integers(length // 6, length - length // 4, size=n)
    for i in range(n):
        rel = np.clip(t - onset[i], 0, None)
        freq = rng.uniform(0.08, 0.25)
        env = np.exp(-rel / rng.uniform(15, 45)) * (t >= onset[i])
        for c in range(3):
            waves[i, c] += rng.uniform(0.5, 1.6) * env * np.sin(freq * rel * 2 * np.pi)
    station = rng.integers(0, 40, size=n)
    np.savez(path, waveforms=waves, onset=onset, station=station)


class PickDataset(Dataset):
    def __init__(self, path, length):
        self.archive = np.load(path)
        self.length = length
        self.n = len(self.archive["onset"])

    def __len__(self):
        return self.n

    def __getitem__(self, idx):
        wave = self.archive["waveforms"][idx]
        onset = self.archive["onset"][idx]
        # per-trace normalisation
        wave = wave - wave.mean(axis=1, keepdims=True)
        wave = wave / (np.abs(wave).max(axis=1, keepdims=True) + 1e-6)
        target = np.float32(onset / self.length)
        return torch.from_numpy(wave), torch.tensor(target)


class Picker(nn.Module):
    def __init__(self, width=24):
        super().__init__()
        chans = [3, width, width * 2, width * 2, width * 4]
        blocks = []
        for c_in, c_out in zip(chans[:-1], chans[1:]):
            blocks += [
                nn.Conv1d(c_in, c_out, 7, padding=3),
                nn.BatchNorm1d(c_out),
                nn.ReLU(),
                nn.MaxPool1d(2),
            ]
        self.features = nn.Sequential(*blocks)
        self.head = nn.Sequential(
            nn.Flatten(), nn.LazyLinear(96), nn.ReLU(), nn.Dropout(0.1), nn.Linear(96, 1)
        )

    def forward(self, x):
        return torch.sigmoid(self.head(self.features(x))).squeeze(1)


@torch.no_grad()
def validate(model, loader, length):
    model.eval()
    err = []
    for wave, target in loader:
        err.append((model(wave) - target).abs() * length)
    return torch.cat(err).mean().item()


def main():
    args = parse_args()
    torch.manual_seed(args.seed)

    with tempfile.TemporaryDirectory() as tmp:
        path = os.path.join(tmp, "picks.npz")
        make_archive(path, args.events, args.length, args.seed)

        full = PickDataset(path, args.length)
        n_val = args.events // 10
        train_set, val_set = random_split(full, [args.events - n_val, n_val])
        train_loader = DataLoader(train_set, batch_size=args.batch_size, shuffle=True, drop_last=True)
        val_loader = DataLoader(val_set, batch_size=64)

        model = Picker()
        model(torch.zeros(2, 3, args.length))  # materialise the lazy layer
        opt = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=1e-4)
        total = args.epochs * len(train_loader)
        sched = torch.optim.lr_scheduler.OneCycleLR(opt, max_lr=args.lr, total_steps=total)
        loss_fn = nn.SmoothL1Loss(beta=0.05)

        step = 0
        start = time.time()
        for epoch in range(args.epochs):
            model.train()
            running = 0.0
            for wave, target in train_loader:
                loss = loss_fn(model(wave), target)
                opt.zero_grad(set_to_none=True)
                loss.backward()
                opt.step()
                sched.step()
                running += loss.item()
                step += 1
            mae = validate(model, val_loader, args.length)
            print(
                f"epoch {epoch + 1:2d}  loss {running / len(train_loader):.5f}  "
                f"val MAE {mae:.1f} samples  {step / (time.time() - start):.1f} it/s"
            )


if __name__ == "__main__":
    main()
