"""Train the spindle bearing classifier.

    python train.py --epochs 5
"""
import argparse
import logging
import random
import tempfile
import time
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Tuple

import numpy as np
import torch
import torch.nn.functional as F

from bearing import FAULTS, EnvelopeNet, RecordingStore, SpindleWindows, build_pipeline, make_loader

log = logging.getLogger("bearing")


@dataclass
class Config:
    seed: int = 17
    recordings: int = 720
    record_length: int = 40000
    fs: float = 25600.0
    full_scale_g: float = 16.0
    window: int = 16384
    numtaps: int = 2049
    envelope_hop: int = 16
    log_floor: float = 1e-3
    steps: Tuple[str, ...] = ("counts_to_g", "detrend", "band_envelope", "log", "standardize")
    batch_size: int = 16
    workers: int = 1
    epochs: int = 5
    lr: float = 3e-3
    weight_decay: float = 1e-3
    label_smoothing: float = 0.05
    clip: float = 5.0
    patience: int = 4


class ConfusionMeter:
    def __init__(self, classes: int):
        self.matrix = torch.zeros(classes, classes, dtype=torch.long)

    def update(self, logits: torch.Tensor, target: torch.Tensor):
        n = self.matrix.shape[0]
        flat = target * n + logits.argmax(dim=1)
        self.matrix += torch.bincount(flat, minlength=n * n).view(n, n)

    def macro_f1(self) -> float:
        tp = self.matrix.diag().float()
        denom = self.matrix.sum(0).float() + self.matrix.sum(1).float()
        return float((2 * tp / denom.clamp(min=1)).mean())

    def recalls(self):
        return (self.matrix.diag().float() / self.matrix.sum(1).clamp(min=1)).tolist()


class EarlyStopping:
    def __init__(self, patience: int, path: Path):
        self.patience, self.path = patience, path
        self.best, self.bad = -1.0, 0

    def update(self, score: float, model, cfg) -> bool:
        if score > self.best + 1e-4:
            self.best, self.bad = score, 0
            torch.save({"model": model.state_dict(), "config": asdict(cfg), "macro_f1": score}, self.path)
        else:
            self.bad += 1
        return self.bad > self.patience


@torch.inference_mode()
def evaluate(model, loader) -> ConfusionMeter:
    model.eval()
    meter = ConfusionMeter(len(FAULTS))
    for x, y in loader:
        meter.update(model(x), y)
    return meter


def parse() -> Config:
    p = argparse.ArgumentParser()
    for f in fields(Config):
        if f.type in (int, float):
            p.add_argument("--" + f.name.replace("_", "-"), type=f.type, default=f.default)
    return Config(**vars(p.parse_args()))


def main():
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(name)s %(message)s")
    cfg = parse()
    random.seed(cfg.seed)
    np.random.seed(cfg.seed)
    torch.manual_seed(cfg.seed)

    rundir = Path(tempfile.mkdtemp(prefix="bearing_"))
    store = RecordingStore(cfg.recordings, cfg.record_length, cfg.fs, cfg.full_scale_g, cfg.seed)
    order = np.random.permutation(len(store))
    n_val = len(store) // 8
    pipeline = build_pipeline(cfg)
    log.info("pipeline: %r", pipeline)
    train_set = SpindleWindows(store, order[n_val:], cfg.window, pipeline, jitter=True)
    val_set = SpindleWindows(store, order[:n_val], cfg.window, pipeline, jitter=False)
    train_loader = make_loader(train_set, cfg, train=True)
    val_loader = make_loader(val_set, cfg, train=False)

    model = EnvelopeNet(bands=4, classes=len(FAULTS))
    optimizer = torch.optim.AdamW(model.parameters(), lr=cfg.lr, weight_decay=cfg.weight_decay)
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, max_lr=cfg.lr, total_steps=cfg.epochs * len(train_loader), pct_start=0.2
    )
    stopper = EarlyStopping(cfg.patience, rundir / "best.pt")

    for epoch in range(cfg.epochs):
        model.train()
        began, total, seen = time.perf_counter(), 0.0, 0
        for x, y in train_loader:
            loss = F.cross_entropy(model(x), y, label_smoothing=cfg.label_smoothing)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(model.parameters(), cfg.clip)
            optimizer.step()
            schedule.step()
            total += loss.item() * len(y)
            seen += len(y)
        meter = evaluate(model, val_loader)
        f1 = meter.macro_f1()
        log.info(
            "epoch %d loss %.4f val macro-F1 %.3f recalls %s (%.1fs)",
            epoch, total / seen, f1, " ".join(f"{r:.2f}" for r in meter.recalls()), time.perf_counter() - began,
        )
        if stopper.update(f1, model, cfg):
            log.info("no improvement for %d epochs, stopping", cfg.patience)
            break
    log.info("best macro-F1 %.3f, checkpoint in %s", stopper.best, stopper.path)


if __name__ == "__main__":
    main()
