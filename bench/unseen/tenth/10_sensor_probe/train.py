"""Activity recognition from wearable sensors: new classifier head on a pretrained encoder."""
import argparse
import logging
import math
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

LOG = logging.getLogger("har")


class SensorWindows(Dataset):
    """Windows of 9 channel IMU data cut out of long synthetic recordings."""

    def __init__(self, n, window, n_classes, seed, train):
        rng = np.random.default_rng(seed)
        self.train = train
        self.y = rng.integers(0, n_classes, n)
        t = np.arange(window, dtype=np.float32) / 50.0
        base = np.random.default_rng(99).uniform(0.4, 4.0, (n_classes, 9)).astype(np.float32)
        amp = np.random.default_rng(98).uniform(0.2, 1.2, (n_classes, 9)).astype(np.float32)
        freq = base[self.y] * rng.normal(1, 0.08, (n, 1)).astype(np.float32)
        phase = rng.uniform(0, 2 * math.pi, (n, 9, 1)).astype(np.float32)
        x = amp[self.y][..., None] * np.sin(2 * math.pi * freq[..., None] * t + phase)
        x += 0.4 * rng.standard_normal(x.shape, dtype=np.float32)
        self.x = torch.from_numpy(x)
        self.y = torch.from_numpy(self.y)

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        x = self.x[i]
        if self.train:
            x = x * (1 + 0.1 * torch.randn(9, 1)) + 0.05 * torch.randn(9, 1)
            x = torch.roll(x, int(torch.randint(x.size(1), ())), dims=1)
        return x, self.y[i]


class ResBlock(nn.Module):
    def __init__(self, c_in, c_out, stride):
        super().__init__()
        self.conv1 = nn.Conv1d(c_in, c_out, 7, stride=stride, padding=3, bias=False)
        self.bn1 = nn.BatchNorm1d(c_out)
        self.conv2 = nn.Conv1d(c_out, c_out, 7, padding=3, bias=False)
        self.bn2 = nn.BatchNorm1d(c_out)
        self.skip = nn.Conv1d(c_in, c_out, 1, stride=stride, bias=False)

    def forward(self, x):
        h = F.relu(self.bn1(self.conv1(x)))
        return F.relu(self.bn2(self.conv2(h)) + self.skip(x))


class Encoder(nn.Module):
    def __init__(self, channels=9, width=48):
        super().__init__()
        self.blocks = nn.Sequential(
            ResBlock(channels, width, 2),
            ResBlock(width, 2 * width, 2),
            ResBlock(2 * width, 3 * width, 2),
        )
        self.out_dim = 3 * width

    def forward(self, x):
        return self.blocks(x)


class AttentionHead(nn.Module):
    def __init__(self, dim, n_classes, hidden=128):
        super().__init__()
        self.score = nn.Linear(dim, 1)
        self.mlp = nn.Sequential(nn.Linear(dim, hidden), nn.ReLU(), nn.Dropout(0.2),
                                 nn.Linear(hidden, n_classes))

    def forward(self, feats):
        feats = feats.transpose(1, 2)
        w = self.score(feats).softmax(1)
        return self.mlp((w * feats).sum(1))


class Recogniser(nn.Module):
    def __init__(self, encoder, n_classes):
        super().__init__()
        self.encoder = encoder
        self.head = AttentionHead(encoder.out_dim, n_classes)

    def train(self, mode=True):
        super().train(mode)
        self.encoder.eval()
        return self

    def forward(self, x):
        return self.head(self.encoder(x))


def write_pretrained(path):
    """Stands in for the published checkpoint."""
    torch.manual_seed(2024)
    torch.save({"encoder": Encoder().state_dict(), "version": 3}, path)


def build(path, n_classes):
    encoder = Encoder()
    encoder.load_state_dict(torch.load(path, weights_only=True)["encoder"])
    return Recogniser(encoder, n_classes)


@torch.no_grad()
def validate(model, loader):
    model.eval()
    right = n = 0
    loss = 0.0
    for x, y in loader:
        out = model(x)
        loss += F.cross_entropy(out, y, reduction="sum").item()
        right += (out.argmax(1) == y).sum().item()
        n += len(y)
    model.train()
    return loss / n, right / n


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--epochs", type=int, default=8)
    p.add_argument("--windows", type=int, default=3200)
    p.add_argument("--length", type=int, default=256)
    p.add_argument("--batch-size", type=int, default=32)
    p.add_argument("--classes", type=int, default=12)
    p.add_argument("--lr", type=float, default=3e-3)
    p.add_argument("--workers", type=int, default=1)
    args = p.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s: %(message)s")

    with tempfile.TemporaryDirectory() as tmp:
        ckpt = Path(tmp) / "encoder.pt"
        write_pretrained(ckpt)
        torch.manual_seed(0)
        train_set = SensorWindows(args.windows, args.length, args.classes, seed=1, train=True)
        val_set = SensorWindows(320, args.length, args.classes, seed=2, train=False)
        train = DataLoader(train_set, args.batch_size, shuffle=True, drop_last=True,
                           num_workers=args.workers, persistent_workers=args.workers > 0)
        val = DataLoader(val_set, 64)

        model = build(ckpt, args.classes)
        model.train()
        opt = torch.optim.Adam(model.head.parameters(), lr=args.lr)
        sched = torch.optim.lr_scheduler.StepLR(opt, 2, 0.5)
        best, steps, spent = 0.0, 0, 0.0
        for epoch in range(1, args.epochs + 1):
            total = torch.zeros(())
            start = time.perf_counter()
            for x, y in train:
                loss = F.cross_entropy(model(x), y, label_smoothing=0.05)
                opt.zero_grad()
                loss.backward()
                opt.step()
                total += loss.detach()
                steps += 1
            spent += time.perf_counter() - start
            sched.step()
            val_loss, acc = validate(model, val)
            LOG.info("epoch %d train %.4f val %.4f acc %.3f", epoch, total.item() / len(train),
                     val_loss, acc)
            if acc > best:
                best = acc
                torch.save(model.head.state_dict(), Path(tmp) / "head.pt")
        LOG.info("finished %d steps, %.2f ms/step, best acc %.3f", steps, 1000 * spent / steps, best)


if __name__ == "__main__":
    main()
