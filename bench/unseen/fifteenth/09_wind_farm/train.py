"""Six-hour power forecast for the turbines of a wind farm, with Lightning."""
import argparse
import csv
import os
import tempfile
import warnings

import lightning as L
import numpy as np
import torch
import torch.nn as nn
from lightning.pytorch.callbacks import Callback, ModelCheckpoint
from torch.utils.data import DataLoader, Dataset

warnings.filterwarnings("ignore", ".*does not have many workers.*")
QUANTILES = (0.1, 0.25, 0.5, 0.75, 0.9)


def simulate_farm(turbines, hours, seed):
    rng = np.random.default_rng(seed)
    t = np.arange(hours)
    regional = 8 + 2.5 * np.sin(2 * np.pi * t / 24) + 2 * np.sin(2 * np.pi * t / 170)
    noise = np.zeros(hours)
    shocks = rng.normal(0, 0.8, hours)
    for i in range(1, hours):
        noise[i] = 0.95 * noise[i - 1] + shocks[i]
    regional = np.clip(regional + noise, 0, None)
    lag = rng.integers(0, 4, turbines)
    wind = np.stack([np.roll(regional, k) for k in lag], 1) * rng.uniform(0.85, 1.15, turbines)
    wind += rng.normal(0, 0.5, wind.shape)
    power = np.clip((wind / 12.0), 0, 1) ** 3 * (wind < 25)
    direction = np.cumsum(rng.normal(0, 0.05, hours))
    weather = np.stack([np.sin(direction), np.cos(direction), np.sin(2 * np.pi * t / 24), np.cos(2 * np.pi * t / 24)], 1)
    return np.concatenate([wind / 10.0, power, weather], 1).astype(np.float32), power.astype(np.float32)


class FarmWindows(Dataset):
    def __init__(self, features, power, past, ahead, index):
        self.features, self.power = torch.from_numpy(features), torch.from_numpy(power)
        self.past, self.ahead, self.index = past, ahead, index

    def __len__(self):
        return len(self.index)

    def __getitem__(self, i):
        t = self.index[i]
        return self.features[t - self.past:t], self.power[t:t + self.ahead]


class FarmForecaster(L.LightningModule):
    def __init__(self, n_features, turbines, past, ahead, hidden=512, layers=4, lr=6e-4):
        super().__init__()
        self.save_hyperparameters()
        self.shape = (ahead, turbines, len(QUANTILES))
        self.embed = nn.Linear(n_features * past, hidden)
        self.body = nn.ModuleList(
            nn.Sequential(nn.LayerNorm(hidden), nn.Linear(hidden, 2 * hidden), nn.GELU(), nn.Linear(2 * hidden, hidden))
            for _ in range(layers))
        self.head = nn.Linear(hidden, ahead * turbines * len(QUANTILES))
        self.register_buffer("q", torch.tensor(QUANTILES))

    def forward(self, x):
        h = self.embed(x.flatten(1))
        for block in self.body:
            h = h + block(h)
        return self.head(h).view(-1, *self.shape)

    def pinball(self, batch):
        x, y = batch
        diff = y.unsqueeze(-1) - self(x)
        return torch.maximum(self.q * diff, (self.q - 1) * diff).mean()

    def training_step(self, batch, batch_idx):
        return self.pinball(batch)

    def validation_step(self, batch, batch_idx):
        self.log("val_pinball", self.pinball(batch), batch_size=len(batch[0]))

    def configure_optimizers(self):
        opt = torch.optim.AdamW(self.parameters(), lr=self.hparams.lr, weight_decay=1e-2, fused=True)
        sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, self.trainer.estimated_stepping_batches)
        return {"optimizer": opt, "lr_scheduler": {"scheduler": sched, "interval": "step"}}


class GradientReport(Callback):
    """Writes the spread of the gradients of each weight matrix to a CSV file."""

    levels = (1, 50, 99)

    def __init__(self, path, every_n_steps=50):
        self.path, self.every_n_steps = path, every_n_steps
        self.stats = {}

    def on_fit_start(self, trainer, pl_module):
        self.file = open(self.path, "w", newline="")
        self.writer = csv.writer(self.file)
        self.writer.writerow(["step", "parameter", "norm", *[f"p{q}" for q in self.levels]])

    def on_after_backward(self, trainer, pl_module):
        for name, p in pl_module.named_parameters():
            if p.grad is None or p.ndim < 2:
                continue
            g = p.grad.detach().abs().cpu().numpy().ravel()
            self.stats[name] = (np.linalg.norm(g), *np.percentile(g, self.levels))

    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        step = trainer.global_step
        if step % self.every_n_steps == 0:
            for name, values in self.stats.items():
                self.writer.writerow([step, name, *[f"{v:.4g}" for v in values]])
            self.file.flush()

    def on_fit_end(self, trainer, pl_module):
        self.file.close()


class Printer(Callback):
    def on_validation_end(self, trainer, pl_module):
        if not trainer.sanity_checking:
            print(f"epoch {trainer.current_epoch} step {trainer.global_step} "
                  f"val_pinball {trainer.callback_metrics['val_pinball'].item():.5f}", flush=True)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=5)
    ap.add_argument("--hours", type=int, default=9000)
    ap.add_argument("--turbines", type=int, default=24)
    ap.add_argument("--past", type=int, default=24)
    ap.add_argument("--ahead", type=int, default=6)
    ap.add_argument("--batch-size", type=int, default=128)
    ap.add_argument("--out", default=os.path.join(tempfile.gettempdir(), "wind_farm"))
    args = ap.parse_args()

    L.seed_everything(7, verbose=False)
    os.makedirs(args.out, exist_ok=True)
    features, power = simulate_farm(args.turbines, args.hours, seed=0)
    index = np.arange(args.past, args.hours - args.ahead)
    cut = int(len(index) * 0.85)
    train = FarmWindows(features, power, args.past, args.ahead, index[:cut])
    val = FarmWindows(features, power, args.past, args.ahead, index[cut + args.past:])

    model = FarmForecaster(features.shape[1], args.turbines, args.past, args.ahead)
    trainer = L.Trainer(
        accelerator="cpu", devices=1, max_epochs=args.epochs, logger=False, gradient_clip_val=1.0,
        enable_progress_bar=False, enable_model_summary=False, num_sanity_val_steps=0,
        callbacks=[
            GradientReport(os.path.join(args.out, "gradients.csv")),
            ModelCheckpoint(args.out, filename="best", monitor="val_pinball", save_top_k=1, enable_version_counter=False),
            Printer(),
        ],
    )
    trainer.fit(model,
                DataLoader(train, args.batch_size, shuffle=True, drop_last=True),
                DataLoader(val, 512))


if __name__ == "__main__":
    main()
