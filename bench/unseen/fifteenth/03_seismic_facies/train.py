"""Facies segmentation of synthetic seismic sections with a compact U-Net."""
import argparse
import json
import logging
import tempfile
import time
from collections import deque
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from sklearn.metrics import jaccard_score
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

log = logging.getLogger("facies")
FACIES = ["shale", "sand", "carbonate", "salt"]


def ricker(length=15, frequency=0.12):
    t = np.arange(length) - length // 2
    a = (np.pi * frequency * t) ** 2
    return (1 - 2 * a) * np.exp(-a)


def synthetic_sections(n, size, seed):
    rng = np.random.default_rng(seed)
    depth, offset = np.mgrid[0:size, 0:size]
    sections = np.empty((n, 1, size, size), np.float32)
    labels = np.empty((n, size, size), np.int64)
    impedance_of = np.array([5.5, 6.6, 8.3, 9.6])
    wavelet = np.fft.rfft(ricker(), size * 2)[:, None]
    for i in range(n):
        fold = 5 * np.sin(offset / rng.uniform(9, 20) + rng.uniform(0, 6)) + rng.normal(0, 0.15) * offset
        fold += rng.uniform(-8, 8) * (offset > rng.integers(8, size - 8))
        horizons = np.sort(rng.uniform(0, size, 5))
        layer = (depth + fold)[..., None] > horizons
        facies = rng.integers(0, 3, 6)[layer.sum(-1)]
        if rng.random() < 0.5:
            dome = (offset - rng.uniform(15, size - 15)) ** 2 / 90 + size * rng.uniform(0.5, 0.8)
            facies = np.where(depth > dome, 3, facies)
        impedance = impedance_of[facies] + 0.01 * depth + rng.normal(0, 0.08, facies.shape)
        reflectivity = np.diff(np.log(impedance), axis=0, prepend=np.log(impedance[:1]))
        trace = np.fft.irfft(np.fft.rfft(reflectivity, size * 2, axis=0) * wavelet, size * 2, axis=0)[7:size + 7]
        sections[i, 0] = trace / (trace.std() + 1e-6) + rng.normal(0, 0.15, trace.shape)
        labels[i] = facies
    return TensorDataset(torch.from_numpy(sections), torch.from_numpy(labels))


def double_conv(inputs, outputs):
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU(inplace=True),
        nn.Conv2d(outputs, outputs, 3, padding=1, bias=False), nn.BatchNorm2d(outputs), nn.ReLU(inplace=True))


class UNet(nn.Module):
    def __init__(self, classes, widths=(10, 20, 40, 80)):
        super().__init__()
        self.down = nn.ModuleList(double_conv(i, o) for i, o in zip((1, *widths[:-1]), widths))
        self.up = nn.ModuleList(double_conv(i + o, o) for i, o in zip(widths[:0:-1], widths[-2::-1]))
        self.classify = nn.Conv2d(widths[0], classes, 1)

    def forward(self, x):
        skips = []
        for i, block in enumerate(self.down):
            x = block(x if i == 0 else F.max_pool2d(x, 2))
            skips.append(x)
        for block, skip in zip(self.up, skips[-2::-1]):
            x = block(torch.cat([F.interpolate(x, scale_factor=2, mode="nearest"), skip], 1))
        return self.classify(x)


@dataclass
class TrainerConfig:
    epochs: int
    lr: float
    window: int
    log_every: int
    out: Path


class FaciesMeter:
    """Mean IoU of the training predictions over the most recent batches."""

    def __init__(self, window):
        self.predicted, self.facies = deque(maxlen=window), deque(maxlen=window)

    def update(self, logits, facies):
        self.predicted.append(logits.argmax(1).flatten().numpy())
        self.facies.append(facies.flatten().numpy())

    def value(self):
        return jaccard_score(np.concatenate(self.facies), np.concatenate(self.predicted),
                             labels=np.arange(len(FACIES)), average="macro", zero_division=0)


class Trainer:
    def __init__(self, model, train_loader, val_loader, config):
        self.model, self.train_loader, self.val_loader, self.config = model, train_loader, val_loader, config
        self.optimizer = torch.optim.AdamW(model.parameters(), lr=config.lr, fused=True)
        self.scheduler = torch.optim.lr_scheduler.OneCycleLR(
            self.optimizer, config.lr, total_steps=config.epochs * len(train_loader))
        self.meter = FaciesMeter(config.window)
        self.best_iou = 0.0
        self.step, self.history = 0, []

    def save(self, name, **extra):
        state = {"model": self.model.state_dict(), "optimizer": self.optimizer.state_dict(),
                 "scheduler": self.scheduler.state_dict(), "step": self.step, **extra}
        torch.save(state, self.config.out / f"{name}.pt")

    def on_step_end(self, loss, logits, facies):
        self.step += 1
        self.meter.update(logits, facies)
        metrics = {"loss": loss, "iou": self.meter.value(), "lr": self.scheduler.get_last_lr()[0]}
        if self.step % self.config.log_every == 0:
            log.info("step %d %s", self.step, " ".join(f"{k} {v:.4g}" for k, v in metrics.items()))

    def train_epoch(self):
        self.model.train()
        for section, facies in self.train_loader:
            if torch.rand(()) < 0.5:
                section, facies = section.flip(-1), facies.flip(-1)
            logits = self.model(section)
            loss = F.cross_entropy(logits, facies, label_smoothing=0.02)
            self.optimizer.zero_grad(set_to_none=True)
            loss.backward()
            self.optimizer.step()
            self.scheduler.step()
            self.on_step_end(loss.item(), logits.detach(), facies)

    @torch.no_grad()
    def validate(self):
        self.model.eval()
        confusion = torch.zeros(len(FACIES) ** 2, dtype=torch.long)
        for section, facies in self.val_loader:
            predicted = self.model(section).argmax(1)
            confusion += torch.bincount((facies * len(FACIES) + predicted).flatten(), minlength=len(confusion))
        confusion = confusion.view(len(FACIES), -1).double()
        hit = confusion.diag()
        return hit / (confusion.sum(0) + confusion.sum(1) - hit).clamp_min(1)

    def fit(self):
        for epoch in range(self.config.epochs):
            started = time.perf_counter()
            self.train_epoch()
            iou = self.validate()
            mean_iou = iou.mean().item()
            self.history.append({"epoch": epoch, "iou": dict(zip(FACIES, iou.tolist()))})
            log.info("epoch %d mIoU %.3f (%.1fs)", epoch, mean_iou, time.perf_counter() - started)
            if mean_iou > self.best_iou:
                self.best_iou = mean_iou
                self.save("best", iou=mean_iou)
        (self.config.out / "history.json").write_text(json.dumps(self.history, indent=2))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--sections", type=int, default=640)
    parser.add_argument("--size", type=int, default=64)
    parser.add_argument("--batch-size", type=int, default=8)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--window", type=int, default=24)
    parser.add_argument("--out", type=Path, default=Path(tempfile.gettempdir()) / "seismic_facies")
    args = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
    torch.manual_seed(5)
    args.out.mkdir(parents=True, exist_ok=True)
    train_loader = DataLoader(synthetic_sections(args.sections, args.size, 1), args.batch_size, shuffle=True,
                              drop_last=True)
    val_loader = DataLoader(synthetic_sections(64, args.size, 2), args.batch_size)
    config = TrainerConfig(args.epochs, args.lr, args.window, 25, args.out)
    Trainer(UNet(len(FACIES)), train_loader, val_loader, config).fit()


if __name__ == "__main__":
    main()
