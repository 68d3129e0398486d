"""Leak detection for the municipal water network from hydrophone recordings.

Each hydrant logger delivers a night of samples as one .npy file. We cut random
one-second clips and train a small 1-D residual network: no leak / weeping joint / burst.
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

RATE = 2048
CLASSES = ("quiet", "weep", "burst")


def record_logger(rng, kind, seconds):
    t = np.arange(RATE * seconds) / RATE
    mains = 0.4 * np.sin(2 * np.pi * 50 * t + rng.uniform(0, 6))
    signal = mains + rng.normal(0, 0.5, size=t.shape)
    if kind > 0:
        hiss = rng.normal(0, 1, size=t.shape)
        lag = 2 if kind == 1 else 5
        hiss = np.convolve(hiss, np.ones(lag) / lag, mode="same")
        tone = rng.uniform(280, 420) if kind == 1 else rng.uniform(120, 220)
        envelope = 1 + 0.3 * np.sin(2 * np.pi * rng.uniform(0.3, 1.0) * t)
        signal += (0.35 * hiss + 0.12 * np.sin(2 * np.pi * tone * t)) * envelope
    return signal.astype(np.float32)


def write_recordings(root, n, seconds, seed):
    rng = np.random.default_rng(seed)
    root.mkdir(parents=True)
    for k in range(n):
        kind = k % len(CLASSES)
        np.save(root / f"hydrant{k:04d}_{CLASSES[kind]}.npy", record_logger(rng, kind, seconds))


class ClipDataset(Dataset):
    def __init__(self, root, clips_per_file, augment):
        self.files = sorted(root.glob("*.npy"))
        self.labels = [CLASSES.index(f.stem.split("_")[1]) for f in self.files]
        self.clips_per_file = clips_per_file
        self.augment = augment
        self.rng = np.random.default_rng(17)

    def __len__(self):
        return len(self.files) * self.clips_per_file

    def __getitem__(self, i):
        k, c = divmod(i, self.clips_per_file)
        night = np.load(self.files[k], mmap_mode="r")
        if self.augment:
            start = self.rng.integers(0, len(night) - RATE)
        else:
            start = c * (len(night) - RATE) // self.clips_per_file
        clip = np.array(night[start:start + RATE])
        clip = (clip - clip.mean()) / (clip.std() + 1e-6)
        if self.augment:
            clip = clip * self.rng.uniform(0.7, 1.3)
            if self.rng.random() < 0.5:
                clip = clip[::-1]
        return torch.from_numpy(clip.astype(np.float32).copy())[None], self.labels[k]


class Residual(nn.Module):
    def __init__(self, channels, dilation):
        super().__init__()
        self.conv1 = nn.Conv1d(channels, channels, 5, padding=2 * dilation, dilation=dilation)
        self.conv2 = nn.Conv1d(channels, channels, 5, padding=2)
        self.norm = nn.BatchNorm1d(channels)

    def forward(self, x):
        return F.relu(x + self.conv2(F.relu(self.norm(self.conv1(x)))))


class LeakNet(nn.Module):
    def __init__(self, channels=40):
        super().__init__()
        self.stem = nn.Conv1d(1, channels, 15, stride=4, padding=7)
        self.blocks = nn.ModuleList([Residual(channels, d) for d in (1, 2, 4, 8, 1, 2)])
        self.out = nn.Linear(2 * channels, len(CLASSES))

    def forward(self, x):
        x = F.relu(self.stem(x))
        for block in self.blocks:
            x = block(x)
        return self.out(torch.cat([x.mean(-1), x.amax(-1)], dim=1))


class RunLog:
    columns = ("step", "loss", "accuracy", "grad_norm", "lr", "elapsed")

    def __init__(self, path):
        self.file = open(path, "w", newline="")
        self.writer = csv.DictWriter(self.file, self.columns)
        self.writer.writeheader()

    def write(self, **row):
        self.writer.writerow(row)
        self.file.flush()


def gradient_norm(model):
    total = 0.0
    for p in model.parameters():
        if p.grad is not None:
            total += p.grad.norm().item() ** 2
    return total ** 0.5


@torch.no_grad()
def evaluate(model, loader):
    model.eval()
    confusion = np.zeros((len(CLASSES), len(CLASSES)), dtype=int)
    for x, y in loader:
        for truth, guess in zip(y.tolist(), model(x).argmax(1).tolist()):
            confusion[truth, guess] += 1
    model.train()
    return confusion


def save_checkpoint(path, model, optimizer, step):
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": step}, path)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--max-steps", type=int, default=450)
    ap.add_argument("--batch-size", type=int, default=32)
    ap.add_argument("--lr", type=float, default=1e-3)
    ap.add_argument("--eval-every", type=int, default=75)
    ap.add_argument("--save-every", type=int, default=25)
    args = ap.parse_args()

    torch.manual_seed(8)
    tmp = tempfile.TemporaryDirectory(prefix="hydrants_")
    root = Path(tmp.name)
    write_recordings(root / "train", 90, 40, seed=1)
    write_recordings(root / "valid", 24, 20, seed=2)
    train_loader = DataLoader(
        ClipDataset(root / "train", 32, augment=True), batch_size=args.batch_size, shuffle=True, num_workers=0
    )
    valid_loader = DataLoader(ClipDataset(root / "valid", 4, augment=False), batch_size=48)

    model = LeakNet()
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=1e-3)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=150, gamma=0.4)
    log = RunLog(root / "run.csv")
    losses = []

    step, start = 0, time.perf_counter()
    while step < args.max_steps:
        for x, y in train_loader:
            logits = model(x)
            loss = F.cross_entropy(logits, y, label_smoothing=0.05)
            optimizer.zero_grad()
            loss.backward()
            norm = gradient_norm(model)
            optimizer.step()
            scheduler.step()
            step += 1

            losses.append(loss.item())
            accuracy = (logits.argmax(1) == y).float().mean().item()
            log.write(step=step, loss=losses[-1], accuracy=accuracy, grad_norm=norm,
                      lr=scheduler.get_last_lr()[0], elapsed=time.perf_counter() - start)
            print(f"\rstep {step} loss {np.mean(losses[-50:]):.4f} acc {accuracy:.2f} |g| {norm:.3f}", end="", flush=True)

            if step % args.save_every == 0:
                save_checkpoint(root / "last.pt", model, optimizer, step)
            if step % args.eval_every == 0:
                confusion = evaluate(model, valid_loader)
                print(f"\n  valid accuracy {np.trace(confusion) / confusion.sum():.3f}  {confusion.tolist()}")
            if step >= args.max_steps:
                break
    print(f"\n{step} steps in {time.perf_counter() - start:.1f} s")
    tmp.cleanup()


if __name__ == "__main__":
    main()
