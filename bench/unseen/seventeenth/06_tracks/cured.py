"""Short-term trajectory prediction for terminal-area arrivals.

A GRU encoder reads the last minutes of a surveillance track and a small decoder
predicts the displacement of the aircraft over the next horizon.
"""
import argparse
import math
import os
import tempfile

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

import lightning as L
from lightning.pytorch.callbacks import LearningRateMonitor, ModelCheckpoint
from lightning.pytorch.loggers import CSVLogger

RUNWAYS = ("07L", "07R", "25L", "25R")
WAKE = ("L", "M", "H", "J")


def simulate_arrivals(path, n_flights, n_samples, seed):
    """Write one archive with the tracks and the flight plans of a day."""
    rng = np.random.default_rng(seed)
    tracks = np.empty((n_flights, n_samples, 5), dtype=np.float32)
    t = np.linspace(0.0, 1.0, n_samples)
    runway = rng.integers(0, len(RUNWAYS), n_flights)
    wake = rng.choice(len(WAKE), n_flights, p=[0.1, 0.62, 0.25, 0.03])
    for i in range(n_flights):
        bearing = rng.uniform(0, 2 * math.pi)
        radius = 60.0 * (1 - t) ** rng.uniform(0.8, 1.2) + 0.5
        sweep = bearing + rng.normal(0, 0.8) * np.sin(math.pi * t) + 0.3 * runway[i] * t
        x, y = radius * np.cos(sweep), radius * np.sin(sweep)
        alt = 110.0 * (1 - t) ** rng.uniform(0.9, 1.4)
        speed = 140 + 160 * (1 - t) + 8 * wake[i]
        heading = np.unwrap(np.arctan2(np.gradient(y), np.gradient(x)))
        tracks[i] = np.stack([x, y, alt, speed / 10, heading * 10], axis=1)
        tracks[i] += rng.normal(0, 0.15, (n_samples, 5))
    np.savez(path, tracks=tracks, runway=runway, wake=wake)


class TrackWindows(Dataset):
    """All (history, horizon) windows of the flights listed in `flights`."""

    def __init__(self, path, flights, history, horizon, stride):
        self.archive = np.load(path)
        self.history = history
        self.horizon = horizon
        self.tracks = self.archive["tracks"]
        n_samples = self.tracks.shape[1]
        self.runway = self.archive["runway"].astype(np.int64)
        self.wake = self.archive["wake"].astype(np.int64)
        self.index = [
            (int(f), s)
            for f in flights
            for s in range(0, n_samples - history - horizon, stride)
        ]

    def __len__(self):
        return len(self.index)

    def __getitem__(self, i):
        flight, start = self.index[i]
        stop = start + self.history + self.horizon
        track = self.tracks[flight, start:stop]
        past, future = track[: self.history], track[self.history :]
        last = past[-1]
        return {
            "past": torch.from_numpy((past - last) / 10.0),
            "context": torch.from_numpy(last / 50.0),
            "future": torch.from_numpy(future[:, :3] - last[:3]),
            "runway": self.runway[flight],
            "wake": self.wake[flight],
        }


class ArrivalData(L.LightningDataModule):
    def __init__(self, args, folder):
        super().__init__()
        self.args = args
        self.path = os.path.join(folder, "arrivals.npz")

    def prepare_data(self):
        if not os.path.exists(self.path):
            simulate_arrivals(self.path, self.args.flights, self.args.samples, self.args.seed)

    def setup(self, stage=None):
        order = np.random.default_rng(self.args.seed + 1).permutation(self.args.flights)
        n_val = max(1, self.args.flights // 20)
        a = self.args
        self.val = TrackWindows(self.path, order[:n_val], a.history, a.horizon, 2 * a.stride)
        self.train = TrackWindows(self.path, order[n_val:], a.history, a.horizon, a.stride)

    def train_dataloader(self):
        return DataLoader(self.train, batch_size=self.args.batch_size, shuffle=True, drop_last=True)

    def val_dataloader(self):
        return DataLoader(self.val, batch_size=2 * self.args.batch_size)


class TrackPredictor(L.LightningModule):
    def __init__(self, horizon, hidden=128, lr=2e-3, max_steps=1000):
        super().__init__()
        self.save_hyperparameters()
        self.runway = nn.Embedding(len(RUNWAYS), 8)
        self.wake = nn.Embedding(len(WAKE), 8)
        self.project = nn.Sequential(nn.Linear(5, 32), nn.GELU())
        self.encoder = nn.GRU(32, hidden, num_layers=2, batch_first=True)
        self.head = nn.Sequential(
            nn.Linear(hidden + 5 + 16, 256),
            nn.GELU(),
            nn.Linear(256, 256),
            nn.GELU(),
            nn.Linear(256, horizon * 6),
        )

    def forward(self, batch):
        states, _ = self.encoder(self.project(batch["past"]))
        plan = torch.cat([self.runway(batch["runway"]), self.wake(batch["wake"])], dim=-1)
        out = self.head(torch.cat([states[:, -1], batch["context"], plan], dim=-1))
        mean, log_scale = out.view(len(out), self.hparams.horizon, 6).chunk(2, dim=-1)
        return mean, log_scale.clamp(-4, 4)

    def training_step(self, batch, batch_idx):
        mean, log_scale = self(batch)
        loss = ((batch["future"] - mean).abs() * torch.exp(-log_scale) + log_scale).mean()
        self.log("train/nll", loss, prog_bar=False)
        return loss

    def validation_step(self, batch, batch_idx):
        mean, log_scale = self(batch)
        error = batch["future"] - mean
        nll = (error.abs() * torch.exp(-log_scale) + log_scale).mean()
        self.log("val/nll", nll, batch_size=len(mean))
        self.log("val/lateral_nm", error[..., :2].norm(dim=-1).mean(), batch_size=len(mean))
        self.log("val/vertical_fl", error[..., 2].abs().mean(), batch_size=len(mean))

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=self.hparams.lr, weight_decay=1e-4)
        schedule = torch.optim.lr_scheduler.OneCycleLR(
            optimizer, self.hparams.lr, total_steps=self.hparams.max_steps + 1
        )
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": schedule, "interval": "step"}}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--flights", type=int, default=420)
    parser.add_argument("--samples", type=int, default=360)
    parser.add_argument("--history", type=int, default=60)
    parser.add_argument("--horizon", type=int, default=20)
    parser.add_argument("--stride", type=int, default=10)
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--max-steps", type=int, default=700)
    parser.add_argument("--seed", type=int, default=11)
    args = parser.parse_args()

    L.seed_everything(args.seed)
    with tempfile.TemporaryDirectory(prefix="arrivals_") as folder:
        data = ArrivalData(args, folder)
        model = TrackPredictor(args.horizon, max_steps=args.max_steps)
        trainer = L.Trainer(
            max_steps=args.max_steps,
            accelerator="auto",
            devices=1,
            logger=CSVLogger(folder, name="logs"),
            callbacks=[
                ModelCheckpoint(dirpath=os.path.join(folder, "ckpt"), monitor="val/nll", save_last=True),
                LearningRateMonitor("step"),
            ],
            val_check_interval=200,
            log_every_n_steps=20,
            gradient_clip_val=1.0,
            enable_progress_bar=False,
        )
        trainer.fit(model, datamodule=data)
        for key, value in trainer.callback_metrics.items():
            print(f"{key}: {float(value):.4f}")


if __name__ == "__main__":
    main()
