"""Grape varieties from a season of satellite observations, transformer in Lightning."""
import argparse
import copy
import tempfile
import time

import lightning as L
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from lightning.pytorch.callbacks import Callback, LearningRateMonitor, ModelCheckpoint
from lightning.pytorch.loggers import CSVLogger
from torch.utils.data import DataLoader, Dataset

DATES, BANDS, VARIETIES = 36, 10, 14


class Parcels(Dataset):
    """Reflectances of a parcel over the season; training drops clouded dates and jitters the gain."""

    def __init__(self, n, seed, train):
        rng = np.random.default_rng(seed)
        self.y = rng.integers(0, VARIETIES, n)
        shape = np.random.default_rng(0)
        onset, decline = shape.uniform(8, 14, VARIETIES), shape.uniform(22, 32, VARIETIES)
        weight = shape.normal(0, 1, (VARIETIES, BANDS))
        t = np.arange(DATES)[None, :] + rng.normal(0, 1.5, (n, 1))
        green = 1 / (1 + np.exp(onset[self.y, None] - t)) - 1 / (1 + np.exp(decline[self.y, None] - t))
        x = green[..., None] * weight[self.y, None, :] + rng.normal(0, 0.6, (n, DATES, BANDS))
        self.x = x.astype(np.float32)
        self.train = train

    def __len__(self):
        return len(self.y)

    def __getitem__(self, i):
        x = self.x[i]
        if self.train:
            x = x * np.random.uniform(0.9, 1.1, BANDS).astype(np.float32)
            x[np.random.rand(DATES) < 0.15] = 0.0
        return x, self.y[i]


class VineModel(L.LightningModule):
    def __init__(self, dim=96, layers=3, lr=8e-4, total=1000):
        super().__init__()
        self.save_hyperparameters()
        self.embed = nn.Linear(BANDS, dim)
        self.day = nn.Parameter(torch.randn(DATES, dim) * 0.02)
        layer = nn.TransformerEncoderLayer(dim, 4, 4 * dim, dropout=0.0, activation="gelu",
                                           batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, VARIETIES))
        self.register_buffer("confusion", torch.zeros(VARIETIES, VARIETIES, dtype=torch.long), persistent=False)
        self.history = []

    def forward(self, x):
        return self.head(self.encoder(self.embed(x) + self.day).mean(1))

    def training_step(self, batch, _):
        x, y = batch
        logits = self(x)
        loss = F.cross_entropy(logits, y)
        acc = (logits.argmax(1) == y).float().mean()
        self.history.append((loss.item(), acc.item()))
        self.log("loss", loss, prog_bar=True, on_step=True, on_epoch=True)
        self.log("acc", acc, prog_bar=True, on_step=True, on_epoch=True)
        return loss

    def validation_step(self, batch, _):
        x, y = batch
        pred = self(x).argmax(1)
        self.confusion += torch.bincount(y * VARIETIES + pred, minlength=VARIETIES**2).view_as(self.confusion)

    def on_validation_epoch_end(self):
        hit = self.confusion.diag().float()
        self.log("val_acc", hit.sum() / self.confusion.sum())
        self.log("val_f1", (2 * hit / (self.confusion.sum(0) + self.confusion.sum(1)).clamp(min=1)).mean())
        self.confusion.zero_()

    def configure_optimizers(self):
        opt = torch.optim.AdamW(self.parameters(), lr=self.hparams.lr, weight_decay=0.02, fused=True)
        sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, self.hparams.total)
        return {"optimizer": opt, "lr_scheduler": {"scheduler": sched, "interval": "step"}}


class MovingAverage(Callback):
    """Keeps an exponential moving average of the weights."""

    def on_fit_start(self, trainer, module):
        self.weights = list(module.parameters())
        self.average = [copy.deepcopy(p.detach()) for p in self.weights]

    @torch.no_grad()
    def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
        torch._foreach_lerp_(self.average, [p.detach() for p in self.weights], 0.005)


class Report(Callback):
    def on_train_start(self, trainer, module):
        self.start = time.perf_counter()

    def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
        if len(module.history) % 25 == 0:
            loss, acc = np.mean(module.history[-25:], axis=0)
            print(f"batch {len(module.history):5d} loss {loss:.4f} acc {acc:.3f} "
                  f"{time.perf_counter() - self.start:.1f}s", flush=True)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=330, help="optimizer steps, of two batches each")
    ap.add_argument("--batch", type=int, default=64)
    args = ap.parse_args()
    L.seed_everything(8, verbose=False)

    train = DataLoader(Parcels(12_800, 1, True), batch_size=args.batch, shuffle=True, drop_last=True,
                       num_workers=1, persistent_workers=True)
    val = DataLoader(Parcels(1_024, 2, False), batch_size=256)
    with tempfile.TemporaryDirectory() as out:
        trainer = L.Trainer(
            accelerator="cpu",
            max_steps=args.steps,
            accumulate_grad_batches=2,
            gradient_clip_val=1.0,
            logger=CSVLogger(out, name="vines"),
            log_every_n_steps=1,
            num_sanity_val_steps=2,
            callbacks=[ModelCheckpoint(dirpath=out, monitor="val_f1", mode="max", save_last=True),
                       LearningRateMonitor("step"), MovingAverage(), Report()],
            enable_progress_bar=False,
            enable_model_summary=False,
        )
        trainer.fit(VineModel(total=args.steps), train, val)
        print({k: round(float(v), 4) for k, v in trainer.callback_metrics.items()})


if __name__ == "__main__":
    main()
