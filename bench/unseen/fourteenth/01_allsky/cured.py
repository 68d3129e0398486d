"""Cloud type and cloud fraction from all-sky camera frames.

The camera's nightly job leaves one archive with the frames (`frames.tar.gz`, a .npy per frame) and a CSV with the observer's
labels. The network has two heads: cloud type (classification) and cloud fraction (regression).
"""
import csv
import gzip
import io
import json
import logging
import tarfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.data import DataLoader, Dataset, Subset

logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", datefmt="%H:%M:%S")
log = logging.getLogger("allsky")
TYPES = ["clear", "cumulus", "stratus", "cirrus"]


@dataclass
class Config:
    workdir: str = "allsky_run"
    frames: int = 448
    size: int = 48
    batch_size: int = 16
    epochs: int = 10
    lr: float = 1.5e-3
    weight_decay: float = 1e-4
    fraction_weight: float = 2.0
    seed: int = 7


def write_campaign(folder: Path, cfg: Config):
    """Simulates a campaign: thresholded noise fields over a sky gradient, seen through a round lens."""
    rng = np.random.default_rng(cfg.seed)
    gen = torch.Generator().manual_seed(cfg.seed)
    yy, xx = np.mgrid[-1:1:cfg.size * 1j, -1:1:cfg.size * 1j]
    lens = ((xx ** 2 + yy ** 2) < 0.96)[..., None]
    kind = rng.integers(0, 4, cfg.frames)
    cells = {1: (9, 9), 2: (3, 3), 3: (14, 4)}
    rows = []
    with tarfile.open(folder / "frames.tar.gz", "w:gz", compresslevel=6) as tar:
        for i, k in enumerate(kind):
            sky = np.stack([0.25 + 0.1 * yy, 0.45 + 0.1 * yy, 0.85 - 0.1 * xx], -1)
            cover = np.zeros_like(xx)
            if k:
                field = torch.randn(1, 1, *cells[int(k)], generator=gen)
                field = F.interpolate(field, (cfg.size, cfg.size), mode="bicubic", align_corners=True)[0, 0].numpy()
                cover = 1 / (1 + np.exp(-(6 if k == 1 else 3) * (field + rng.uniform(-0.5, 0.5))))
            white = np.array([0.9, 0.9, 0.92]) * rng.uniform(0.7, 1.0)
            frame = sky * (1 - cover[..., None]) + white * cover[..., None]
            frame = (frame + rng.normal(0, 0.03, frame.shape)) * lens
            buf = io.BytesIO()
            np.save(buf, (frame.clip(0, 1) * 255).astype(np.uint8))
            name = f"frames/{i:05d}.npy"
            info = tarfile.TarInfo(name)
            info.size = buf.tell()
            buf.seek(0)
            tar.addfile(info, buf)
            rows.append((name, int(k), float(cover[lens[..., 0]].mean())))
    with open(folder / "labels.csv", "w", newline="") as f:
        csv.writer(f).writerows(rows)


class AllSkyFrames(Dataset):
    def __init__(self, folder: Path):
        with gzip.open(folder / "frames.tar.gz") as f:
            self.archive = tarfile.open(fileobj=io.BytesIO(f.read()), mode="r:")
        self.members = {m.name: m for m in self.archive.getmembers()}
        with open(folder / "labels.csv") as f:
            self.rows = [(n, int(k), float(c)) for n, k, c in csv.reader(f)]

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        name, kind, fraction = self.rows[i]
        frame = np.load(io.BytesIO(self.archive.extractfile(self.members[name]).read()))
        x = torch.from_numpy(frame).permute(2, 0, 1).float().div_(127.5).sub_(1)
        return x, kind, torch.tensor(fraction)


class Block(nn.Module):
    def __init__(self, cin, cout, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(cin, cout, 3, stride, 1, bias=False)
        self.conv2 = nn.Conv2d(cout, cout, 3, 1, 1, bias=False)
        self.bn1, self.bn2 = nn.BatchNorm2d(cout), nn.BatchNorm2d(cout)
        self.skip = nn.Conv2d(cin, cout, 1, stride, bias=False)

    def forward(self, x):
        y = F.relu(self.bn1(self.conv1(x)))
        return F.relu(self.bn2(self.conv2(y)) + self.skip(x))


class SkyNet(nn.Module):
    def __init__(self, width=24):
        super().__init__()
        self.body = nn.Sequential(Block(3, width, 1), Block(width, 2 * width, 2), Block(2 * width, 3 * width, 2),
                                  Block(3 * width, 4 * width, 2), nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.kind = nn.Linear(4 * width, len(TYPES))
        self.fraction = nn.Linear(4 * width, 1)

    def forward(self, x):
        h = self.body(x)
        return self.kind(h), torch.sigmoid(self.fraction(h)).squeeze(1)


class Trainer:
    def __init__(self, cfg: Config):
        torch.manual_seed(cfg.seed)
        self.cfg = cfg
        self.folder = Path(cfg.workdir)
        self.folder.mkdir(exist_ok=True)
        write_campaign(self.folder, cfg)
        (self.folder / "config.json").write_text(json.dumps(asdict(cfg), indent=1))
        frames = AllSkyFrames(self.folder)
        held_out = cfg.frames // 8
        self.train_loader = DataLoader(Subset(frames, range(len(frames) - held_out)), cfg.batch_size, shuffle=True, drop_last=True)
        self.valid_loader = DataLoader(Subset(frames, range(len(frames) - held_out, len(frames))), 2 * cfg.batch_size)
        self.model = SkyNet()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=cfg.lr, weight_decay=cfg.weight_decay)
        self.schedule = torch.optim.lr_scheduler.OneCycleLR(self.optimizer, cfg.lr, total_steps=cfg.epochs * len(self.train_loader))
        self.step, self.best = 0, float("inf")

    def losses(self, batch):
        x, kind, fraction = batch
        logits, estimate = self.model(x)
        return F.cross_entropy(logits, kind), F.mse_loss(estimate, fraction), (logits.argmax(1) == kind).sum()

    def train_epoch(self):
        self.model.train()
        for batch in self.train_loader:
            if torch.rand(()) < 0.5:
                batch[0] = batch[0].flip(-1)
            ce, mse, _ = self.losses(batch)
            loss = ce + self.cfg.fraction_weight * mse
            self.optimizer.zero_grad(set_to_none=True)
            loss.backward()
            self.optimizer.step()
            self.schedule.step()
            self.step += 1
            if self.step % 20 == 0:
                log.info("step %d  loss %.4f  lr %.2e", self.step, loss.item(), self.schedule.get_last_lr()[0])

    @torch.no_grad()
    def validate(self):
        self.model.eval()
        ce, hits, n = 0.0, 0, 0
        for batch in self.valid_loader:
            a, _, good = self.losses(batch)
            ce, hits, n = ce + a.item() * len(batch[1]), hits + good.item(), n + len(batch[1])
        return ce / n, hits / n

    def fit(self):
        for epoch in range(self.cfg.epochs):
            start = time.time()
            self.train_epoch()
            ce, acc = self.validate()
            log.info("epoch %d  valid ce %.4f  acc %.3f  (%.1f s)", epoch, ce, acc, time.time() - start)
            if ce < self.best:
                self.best = ce
                torch.save({"model": self.model.state_dict(), "epoch": epoch}, self.folder / "best.pt")


if __name__ == "__main__":
    Trainer(Config()).fit()
