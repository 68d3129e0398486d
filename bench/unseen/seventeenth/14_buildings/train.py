"""Self-supervised embeddings of building point clouds (SimCLR with a PointNet encoder), trained with Lightning.

Roof type labels are used only for the nearest-neighbour probe at validation.
"""
import argparse
import logging
import math
import tempfile
from pathlib import Path

import lightning as L
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from lightning.pytorch.callbacks import Callback, ModelCheckpoint
from lightning.pytorch.loggers import CSVLogger
from torch.utils.data import DataLoader, Dataset

ROOFS = ("flat", "gable", "hip", "shed", "sawtooth")


def roof_height(kind, u, v, rise):
    """Height above the eaves at footprint position (u, v) in [-1, 1]."""
    if kind == "gable":
        return rise * (1 - np.abs(u))
    if kind == "hip":
        return rise * (1 - np.maximum(np.abs(u), np.abs(v)))
    if kind == "shed":
        return rise * (u + 1) / 2
    if kind == "sawtooth":
        return rise * ((u * 2) % 1.0)
    return np.zeros_like(u)


def scan_building(rng, kind, n_points):
    """Airborne-lidar-like sample: mostly roof returns, some facade and ground returns."""
    half_w, half_l, eaves = rng.uniform(4, 12), rng.uniform(5, 18), rng.uniform(3, 15)
    rise = rng.uniform(0.25, 0.6) * half_w
    n_roof, n_wall = int(0.65 * n_points), int(0.2 * n_points)
    n_ground = n_points - n_roof - n_wall
    u, v = rng.uniform(-1, 1, n_roof), rng.uniform(-1, 1, n_roof)
    roof = np.stack([u * half_w, v * half_l, eaves + roof_height(kind, u, v, rise)], 1)
    side, along = rng.integers(0, 4, n_wall), rng.uniform(-1, 1, n_wall)
    wall_x = np.where(side == 0, -half_w, np.where(side == 1, half_w, along * half_w))
    wall_y = np.where(side == 2, -half_l, np.where(side == 3, half_l, along * half_l))
    wall = np.stack([wall_x, wall_y, rng.uniform(0, eaves, n_wall)], 1)
    ground = np.stack([rng.uniform(-1.5, 1.5, n_ground) * half_w, rng.uniform(-1.5, 1.5, n_ground) * half_l,
                       np.zeros(n_ground)], 1)
    return np.concatenate([roof, wall, ground]) + rng.normal(0, 0.08, (n_points, 3))


def build_tiles(folder, n_buildings, n_points, seed):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, len(ROOFS), n_buildings)
    clouds = np.stack([scan_building(rng, ROOFS[k], n_points) for k in labels]).astype(np.float32)
    np.save(folder / "clouds.npy", clouds)
    np.save(folder / "labels.npy", labels)


def normalise(points):
    points = points - points.mean(0)
    return points / np.sqrt((points ** 2).sum(1).max())


class BuildingViews(Dataset):
    """Two random views of each building; views are drawn anew at every access."""

    def __init__(self, clouds, n_view, seed=0):
        self.clouds, self.n_view = clouds, n_view
        self.rng = np.random.default_rng(seed)

    def __len__(self):
        return len(self.clouds)

    def view(self, points):
        rng = self.rng
        points = points[rng.integers(0, len(points), self.n_view)]
        points = normalise(points)
        angle = rng.uniform(0, 2 * math.pi)
        c, s = math.cos(angle), math.sin(angle)
        rotation = np.array([[c, -s, 0], [s, c, 0], [0, 0, 1]], np.float32) * np.float32(rng.uniform(0.85, 1.15))
        points = points @ rotation.T
        points += rng.normal(0, 0.01, points.shape)
        return torch.from_numpy(points)

    def __getitem__(self, i):
        points = np.asarray(self.clouds[i])
        return self.view(points), self.view(points)


class LabelledBuildings(Dataset):
    def __init__(self, clouds, labels, n_view):
        self.clouds, self.labels, self.n_view = clouds, labels, n_view

    def __len__(self):
        return len(self.clouds)

    def __getitem__(self, i):
        points = np.asarray(self.clouds[i])
        step = len(points) // self.n_view
        return torch.from_numpy(normalise(points[::step][:self.n_view])), int(self.labels[i])


class PointNet(nn.Module):
    def __init__(self, dim=256):
        super().__init__()
        self.local = self._shared(3, 64, 64)
        self.wide = self._shared(64, 128, dim)
        self.mixed = self._shared(64 + dim, 256, dim)

    @staticmethod
    def _shared(n_in, n_mid, n_out):
        return nn.Sequential(nn.Conv1d(n_in, n_mid, 1), nn.BatchNorm1d(n_mid), nn.ReLU(),
                             nn.Conv1d(n_mid, n_out, 1), nn.BatchNorm1d(n_out), nn.ReLU())

    def forward(self, points):
        local = self.local(points.transpose(1, 2))
        overall = self.wide(local).amax(2, keepdim=True)
        mixed = self.mixed(torch.cat([local, overall.expand(-1, -1, local.size(2))], 1))
        return torch.cat([mixed.amax(2), mixed.mean(2)], 1)


class ContrastiveBuildings(L.LightningModule):
    def __init__(self, lr, total_steps, temperature=0.1, dim=256):
        super().__init__()
        self.save_hyperparameters()
        self.encoder = PointNet(dim)
        self.head = nn.Sequential(nn.Linear(2 * dim, dim), nn.ReLU(), nn.Linear(dim, 64))
        self.bank, self.bank_labels = [], []

    def training_step(self, batch, batch_idx):
        first, second = batch
        n = len(first)
        z = F.normalize(self.head(self.encoder(torch.cat([first, second]))), dim=1)
        logits = z @ z.T / self.hparams.temperature
        logits.fill_diagonal_(-1e4)
        target = torch.cat([torch.arange(n, 2 * n), torch.arange(n)])
        loss = F.cross_entropy(logits, target)
        top1 = (logits.argmax(1) == target).float().mean()
        self.log("train_loss", loss.item(), prog_bar=False)
        self.log("train_top1", top1.item())
        self.log("embedding_std", z.std(0).mean().item())
        return loss

    def validation_step(self, batch, batch_idx):
        points, labels = batch
        self.bank.append(F.normalize(self.encoder(points), dim=1).cpu())
        self.bank_labels.append(labels.cpu())

    def on_validation_epoch_end(self):
        bank, labels = torch.cat(self.bank), torch.cat(self.bank_labels)
        self.bank, self.bank_labels = [], []
        similarity = torch.cdist(bank, bank)
        similarity.fill_diagonal_(float("inf"))
        nearest = similarity.topk(min(5, len(bank) - 1), largest=False).indices
        votes = F.one_hot(labels[nearest], len(ROOFS)).sum(1)
        self.log("knn_accuracy", (votes.argmax(1) == labels).float().mean().item())

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=self.hparams.lr, weight_decay=1e-4)
        schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, self.hparams.lr, total_steps=self.hparams.total_steps)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}


class Progress(Callback):
    def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
        if trainer.global_step % 20 == 0:
            print(f"step {trainer.global_step:4d}  loss {outputs['loss'].item():.4f}  "
                  f"knn {float(trainer.callback_metrics.get('knn_accuracy', 0.0)):.3f}", flush=True)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--buildings", type=int, default=1600)
    ap.add_argument("--epochs", type=int, default=8)
    ap.add_argument("--batch-size", type=int, default=32)
    ap.add_argument("--points", type=int, default=192)
    ap.add_argument("--lr", type=float, default=2e-3)
    args = ap.parse_args()
    L.seed_everything(21)
    logging.getLogger("lightning.pytorch").setLevel(logging.WARNING)
    folder = Path(tempfile.mkdtemp(prefix="buildings_"))
    build_tiles(folder, args.buildings, 2048, seed=21)
    clouds = np.load(folder / "clouds.npy", mmap_mode="r")
    labels = np.load(folder / "labels.npy")

    cut = int(0.85 * args.buildings)
    train_loader = DataLoader(BuildingViews(clouds[:cut], args.points), batch_size=args.batch_size, shuffle=True,
                              drop_last=True, num_workers=0)
    val_loader = DataLoader(LabelledBuildings(clouds[cut:], labels[cut:], args.points), batch_size=64, num_workers=0)
    model = ContrastiveBuildings(args.lr, total_steps=args.epochs * len(train_loader))
    trainer = L.Trainer(
        max_epochs=args.epochs, accelerator="cpu", logger=CSVLogger(folder, name="runs"), log_every_n_steps=5,
        callbacks=[ModelCheckpoint(folder / "checkpoints", save_last=True, monitor="knn_accuracy", mode="max"), Progress()],
        gradient_clip_val=1.0, enable_progress_bar=False, enable_model_summary=False)
    trainer.fit(model, train_loader, val_loader)
    print("done, knn accuracy", float(trainer.callback_metrics["knn_accuracy"]))


if __name__ == "__main__":
    main()
