"""Probabilistic river stage forecasts at gauging stations from rain, temperature and the stage itself."""
import argparse
import tempfile
from pathlib import Path

import lightning as L
import numpy as np
import pandas as pd
import torch
import torch.nn as nn
from lightning.pytorch.callbacks import LearningRateMonitor, ModelCheckpoint
from lightning.pytorch.loggers import CSVLogger
from torch.utils.data import DataLoader, Dataset

QUANTILES = (0.1, 0.5, 0.9)
DRIVERS = ["stage", "rain", "temp"]


def simulate_basin(station, hours, seed):
    """Linear reservoir cascade fed by intermittent rain and snow melt."""
    rng = np.random.default_rng([seed, station])
    index = pd.date_range("2016-01-01", periods=hours, freq="h")
    doy = index.dayofyear.to_numpy()
    temp = 9 - 11 * np.cos(2 * np.pi * (doy - 20) / 365) + 3 * np.sin(2 * np.pi * (index.hour.to_numpy() - 9) / 24)
    temp = temp + np.convolve(rng.normal(0, 1.2, hours), np.ones(48) / 7, mode="same")
    wet = np.convolve(rng.random(hours) < 0.012, np.ones(9), mode="same") > 0
    rain = wet * rng.gamma(0.8, 1.5, hours)
    supply = np.where(temp > 0, rain + 0.02 * np.clip(temp, 0, 8), 0.1 * rain)
    kernel = np.arange(1, 121) ** 1.2 * np.exp(-np.arange(1, 121) / rng.uniform(8, 20))
    stage = 0.6 + np.convolve(supply, kernel / kernel.sum())[:hours] + rng.normal(0, 0.02, hours)
    return pd.DataFrame({"stage": stage, "rain": rain, "temp": temp}, index=index).astype("float32")


def normalise(frame):
    return (frame - frame.mean()) / (frame.std() + 1e-6)


class GaugeWindows(Dataset):
    """A past window of drivers plus calendar, the calendar and rain forecast ahead, and the stage to predict."""

    def __init__(self, frames, past, ahead, stride, start, end):
        self.past, self.ahead = past, ahead
        self.series, self.times = [], []
        self.origins = []
        for s, f in enumerate(frames):
            f = normalise(f.loc[start:end])
            self.series.append(torch.from_numpy(f[DRIVERS].to_numpy(copy=True)))
            self.times.append(torch.from_numpy(self.calendar(f.index)))
            self.origins += [(s, t) for t in range(past, len(f) - ahead, stride)]

    def __len__(self):
        return len(self.origins)

    @staticmethod
    def calendar(index):
        day = 2 * np.pi * index.dayofyear / 365.25
        clock = 2 * np.pi * index.hour / 24
        week = 2 * np.pi * index.dayofweek / 7
        return np.stack([f(a) for a in (day, clock, week) for f in (np.sin, np.cos)], axis=1).astype(np.float32)

    def __getitem__(self, i):
        station, t = self.origins[i]
        series, times = self.series[station], self.times[station]
        x_past = torch.cat([series[t - self.past:t], times[t - self.past:t]], dim=1)
        x_ahead = torch.cat([series[t:t + self.ahead, 1:2], times[t:t + self.ahead]], dim=1)
        return station, x_past, x_ahead, series[t:t + self.ahead, 0]


class StageForecaster(nn.Module):
    def __init__(self, n_stations, past, ahead, width=176, emb=16):
        super().__init__()
        self.site = nn.Embedding(n_stations, emb)
        self.past = nn.Sequential(
            nn.Conv1d(len(DRIVERS) + 6, width, 5, stride=3), nn.GELU(),
            nn.Conv1d(width, width, 5, stride=3), nn.GELU(),
            nn.AdaptiveAvgPool1d(6), nn.Flatten())
        self.recent = nn.Linear(24 * len(DRIVERS), width)
        self.mix = nn.Sequential(nn.Linear(6 * width + width + emb, 2 * width), nn.GELU(), nn.Dropout(0.1))
        self.step = nn.Sequential(nn.Linear(2 * width + 7, width), nn.GELU(), nn.Linear(width, len(QUANTILES)))

    def forward(self, site, x_past, x_ahead):
        history = self.past(x_past.transpose(1, 2))
        recent = self.recent(x_past[:, -24:, :len(DRIVERS)].flatten(1))
        code = self.mix(torch.cat([history, recent, self.site(site)], dim=1))
        code = code.unsqueeze(1).expand(-1, x_ahead.size(1), -1)
        delta = self.step(torch.cat([code, x_ahead], dim=-1))
        return x_past[:, -1:, :1] + delta


class ForecastTask(L.LightningModule):
    def __init__(self, n_stations, past, ahead, lr, max_steps):
        super().__init__()
        self.save_hyperparameters()
        self.net = StageForecaster(n_stations, past, ahead)
        self.register_buffer("q", torch.tensor(QUANTILES))

    def pinball(self, batch):
        site, x_past, x_ahead, y = batch
        error = y.unsqueeze(-1) - self.net(site, x_past, x_ahead)
        return torch.maximum(self.q * error, (self.q - 1) * error).mean()

    def training_step(self, batch, batch_idx):
        loss = self.pinball(batch)
        self.log("train/pinball", loss)
        return loss

    def validation_step(self, batch, batch_idx):
        self.log("val/pinball", self.pinball(batch), prog_bar=True, batch_size=len(batch[0]))

    def on_validation_epoch_end(self):
        if not self.trainer.sanity_checking:
            print(f"step {self.global_step} val pinball {self.trainer.callback_metrics['val/pinball']:.4f}", flush=True)

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=self.hparams.lr, weight_decay=1e-3)
        scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, self.hparams.lr, total_steps=self.hparams.max_steps)
        return {"optimizer": optimizer, "lr_scheduler": {"scheduler": scheduler, "interval": "step"}}


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--stations", type=int, default=12)
    p.add_argument("--past", type=int, default=336)
    p.add_argument("--ahead", type=int, default=48)
    p.add_argument("--batch-size", type=int, default=64)
    p.add_argument("--max-steps", type=int, default=180)
    p.add_argument("--lr", type=float, default=2e-3)
    p.add_argument("--seed", type=int, default=8)
    p.add_argument("--out", type=Path, default=Path(tempfile.gettempdir()) / "gauge_forecast")
    args = p.parse_args()
    L.seed_everything(args.seed)
    frames = [simulate_basin(s, 3 * 365 * 24, args.seed) for s in range(args.stations)]
    train = GaugeWindows(frames, args.past, args.ahead, 6, "2016-01-01", "2017-12-31")
    val = GaugeWindows(frames, args.past, args.ahead, 311, "2018-01-01", "2018-12-30")
    train_loader = DataLoader(train, args.batch_size, shuffle=True, drop_last=True)
    val_loader = DataLoader(val, 128)
    task = ForecastTask(args.stations, args.past, args.ahead, args.lr, args.max_steps)
    trainer = L.Trainer(
        accelerator="cpu", max_steps=args.max_steps, val_check_interval=90, log_every_n_steps=20,
        gradient_clip_val=1.0, enable_progress_bar=False, logger=CSVLogger(args.out),
        callbacks=[ModelCheckpoint(monitor="val/pinball"), LearningRateMonitor("step")])
    trainer.fit(task, train_loader, val_loader)


if __name__ == "__main__":
    main()
