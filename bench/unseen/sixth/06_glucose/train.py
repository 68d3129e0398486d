"""Forecast continuous glucose readings with a dilated temporal convolution network (Lightning)."""
import argparse
import logging
import warnings

import lightning as L
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

warnings.filterwarnings("ignore")
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)


def simulate_patients(n_patients, n_readings, seed):
    rng = np.random.default_rng(seed)
    t = np.arange(n_readings)
    series = np.empty((n_patients, n_readings, 3))
    for p in range(n_patients):
        meals = (rng.random(n_readings) < 0.012) * rng.uniform(20, 90, n_readings)
        kernel = np.exp(-np.arange(36) / 12.0) * (np.arange(36) / 12.0)
        rise = np.convolve(meals, kernel)[:n_readings]
        insulin = np.roll(rise, 8) * rng.uniform(0.5, 0.9)
        glucose = 110 + 15 * np.sin(2 * np.pi * t / 288 + rng.uniform(0, 6)) + rise - 0.6 * insulin
        glucose = glucose + rng.normal(0, 4, n_readings)
        series[p] = np.stack([glucose, meals, insulin], axis=1)
    return (series - series.mean((0, 1))) / series.std((0, 1))


class WindowBatches:
    """Random windows of history and the horizon that follows, a batch at a time."""

    def __init__(self, series, history, horizon, batch_size, batches, seed):
        self.series = torch.from_numpy(series)
        self.history, self.horizon = history, horizon
        self.batch_size, self.batches = batch_size, batches
        self.gen = torch.Generator().manual_seed(seed)

    def __len__(self):
        return self.batches

    def __iter__(self):
        n, length, _ = self.series.shape
        span = torch.arange(self.history + self.horizon)
        for _ in range(self.batches):
            who = torch.randint(n, (self.batch_size,), generator=self.gen)
            at = torch.randint(length - len(span), (self.batch_size,), generator=self.gen)
            window = self.series[who[:, None], at[:, None] + span]
            yield window[:, :self.history].transpose(1, 2), window[:, self.history:, 0]


class ResidualTCN(nn.Module):
    def __init__(self, channels, dilation):
        super().__init__()
        self.pad = 2 * dilation
        self.conv1 = nn.Conv1d(channels, channels, 3, dilation=dilation)
        self.conv2 = nn.Conv1d(channels, channels, 1)
        self.norm = nn.BatchNorm1d(channels)

    def forward(self, x):
        h = F.relu(self.norm(self.conv1(F.pad(x, (self.pad, 0)))))
        return x + self.conv2(h)


class GlucoseForecaster(L.LightningModule):
    def __init__(self, channels, horizon, lr):
        super().__init__()
        self.lr = lr
        self.inp = nn.Conv1d(3, channels, 1)
        self.blocks = nn.Sequential(*[ResidualTCN(channels, 2 ** i) for i in range(5)])
        self.out = nn.Linear(channels, horizon)
        self.double()

    def forward(self, x):
        return self.out(self.blocks(self.inp(x))[:, :, -1])

    def training_step(self, batch, batch_idx):
        x, y = batch
        loss = F.smooth_l1_loss(self(x), y)
        if batch_idx % 50 == 0:
            print(f"epoch {self.current_epoch} batch {batch_idx:3d} loss {loss.item():.4f}", flush=True)
        return loss

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=self.lr, weight_decay=1e-3)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--patients", type=int, default=40)
    parser.add_argument("--readings", type=int, default=4000)
    parser.add_argument("--history", type=int, default=144)
    parser.add_argument("--horizon", type=int, default=12)
    parser.add_argument("--channels", type=int, default=48)
    parser.add_argument("--batch-size", type=int, default=48)
    parser.add_argument("--batches", type=int, default=150)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--lr", type=float, default=1e-3)
    args = parser.parse_args()

    L.seed_everything(5, verbose=False)
    series = simulate_patients(args.patients, args.readings, seed=5)
    batches = WindowBatches(series, args.history, args.horizon, args.batch_size, args.batches, seed=5)
    model = GlucoseForecaster(args.channels, args.horizon, args.lr)
    trainer = L.Trainer(max_epochs=args.epochs, accelerator="cpu", logger=False,
                        enable_checkpointing=False, enable_progress_bar=False,
                        enable_model_summary=False, gradient_clip_val=1.0)
    trainer.fit(model, batches)


if __name__ == "__main__":
    main()
