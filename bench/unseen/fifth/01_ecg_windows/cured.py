"""Beat classification on single-lead ECG windows (synthetic recordings, one file per recording)."""
import math
import pathlib
import tempfile
import time

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

N_RECORDS = 40
WINDOWS = 80
LENGTH = 512
CLASSES = 4
EPOCHS = 4


def write_recordings(root: pathlib.Path, seed: int = 3) -> list[pathlib.Path]:
    rng = np.random.default_rng(seed)
    t = np.linspace(0, 4 * math.pi, LENGTH, dtype=np.float32)
    paths = []
    for r in range(N_RECORDS):
        labels = rng.integers(0, CLASSES, WINDOWS)
        rate = 2.0 + labels[:, None] * 0.7 + rng.normal(0, 0.15, (WINDOWS, 1))
        phase = rng.uniform(0, 2 * math.pi, (WINDOWS, 1))
        wave = np.sin(rate * t[None] + phase)
        spikes = np.exp(-((wave - 0.95) ** 2) / 0.004)
        drift = rng.normal(0, 0.2, (WINDOWS, 1)) * np.sin(t[None] / 5)
        signal = spikes + 0.2 * wave + drift + rng.normal(0, 0.1, (WINDOWS, LENGTH))
        path = root / f"rec_{r:03d}.npz"
        np.savez_compressed(path, signal=signal.astype(np.float32), label=labels.astype(np.int64))
        paths.append(path)
    return paths


class EcgWindows(Dataset):
    def __init__(self, paths):
        self.paths = paths
        self.index = [(p, w) for p in paths for w in range(WINDOWS)]
        self.records = {p: dict(np.load(p)) for p in paths}

    def __len__(self):
        return len(self.index)

    def __getitem__(self, i):
        path, w = self.index[i]
        rec = self.records[path]
        x = rec["signal"][w]
        y = rec["label"][w]
        x = (x - x.mean()) / (x.std() + 1e-6)
        shift = np.random.randint(0, 32)
        x = np.roll(x, shift)
        return torch.from_numpy(x).unsqueeze(0), int(y)


class Residual1d(nn.Module):
    def __init__(self, cin, cout, stride):
        super().__init__()
        self.conv1 = nn.Conv1d(cin, cout, 7, stride=stride, padding=3, bias=False)
        self.bn1 = nn.BatchNorm1d(cout)
        self.conv2 = nn.Conv1d(cout, cout, 7, padding=3, bias=False)
        self.bn2 = nn.BatchNorm1d(cout)
        self.skip = nn.Conv1d(cin, cout, 1, stride=stride, bias=False)

    def forward(self, x):
        h = F.relu(self.bn1(self.conv1(x)))
        h = self.bn2(self.conv2(h))
        return F.relu(h + self.skip(x))


class EcgNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv1d(1, 24, 15, stride=2, padding=7)
        self.blocks = nn.Sequential(
            Residual1d(24, 32, 2), Residual1d(32, 64, 2), Residual1d(64, 96, 2)
        )
        self.head = nn.Linear(96, CLASSES)

    def forward(self, x):
        return self.head(self.blocks(self.stem(x)).mean(-1))


def main():
    torch.manual_seed(0)
    root = pathlib.Path(tempfile.mkdtemp(prefix="ecg_"))
    paths = write_recordings(root)
    print(f"{len(paths)} recordings under {root}")
    loader = DataLoader(EcgWindows(paths), batch_size=24, shuffle=True, drop_last=True)
    net = EcgNet()
    opt = torch.optim.AdamW(net.parameters(), lr=2e-3, weight_decay=1e-3)
    sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, EPOCHS * len(loader))
    print(f"parameters: {sum(p.numel() for p in net.parameters()) / 1e3:.0f}k")

    for epoch in range(EPOCHS):
        net.train()
        t0, seen, running = time.time(), 0, 0.0
        for it, (x, y) in enumerate(loader):
            loss = F.cross_entropy(net(x), y)
            opt.zero_grad()
            loss.backward()
            opt.step()
            sched.step()
            seen += len(x)
            running += loss.item()
            if it % 40 == 39:
                print(f"epoch {epoch} it {it + 1:4d} loss {running / 40:.4f} "
                      f"lr {sched.get_last_lr()[0]:.2e} {seen / (time.time() - t0):.0f} windows/s")
                running = 0.0
    torch.save(net.state_dict(), root / "ecgnet.pt")
    print("saved", root / "ecgnet.pt")


if __name__ == "__main__":
    main()
