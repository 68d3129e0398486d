"""Multi-label ECG statement classifier (synthetic 3-lead strips, PTB-XL-like labels) in Lightning."""
import argparse
import time

import lightning as L
import numpy as np
import torch
from lightning.pytorch.callbacks import Callback, LearningRateMonitor, ModelCheckpoint
from lightning.pytorch.loggers import CSVLogger
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from torchmetrics import MetricCollection
from torchmetrics.classification import MultilabelAUROC, MultilabelAveragePrecision

STATEMENTS = ["NORM", "AFIB", "PVC", "PAC", "LBBB", "RBBB", "STE", "STD", "TINV", "LVH", "TACHY", "BRADY"]


def parse_args():
    p = argparse.ArgumentParser()
    p.add_argument("--strips", type=int, default=24000)
    p.add_argument("--length", type=int, default=320)
    p.add_argument("--batch-size", type=int, default=64)
    p.add_argument("--epochs", type=int, default=2)
    p.add_argument("--width", type=int, default=24)
    p.add_argument("--lr", type=float, default=2e-3)
    p.add_argument("--seed", type=int, default=7)
    p.add_argument("--out", default="runs_ecg")
    p.add_argument("--limit-steps", type=int, default=-1)
    return p.parse_args()


def synth_strips(n, length, seed):
    """Three leads with beats as sums of Gaussians; every statement bends the shape a little."""
    rng = np.random.default_rng(seed)
    y = (rng.random((n, len(STATEMENTS))) < 0.18).astype(np.float32)
    t = np.arange(length, dtype=np.float32)[None, :]
    period = 90.0 - 30.0 * y[:, 10] + 40.0 * y[:, 11] + rng.normal(0, 4, n)
    phase = ((t + rng.uniform(0, 90, (n, 1))) % period[:, None]) / period[:, None]
    phase = phase.astype(np.float32)

    def bump(centre, width, height):
        return height[:, None] * np.exp(-0.5 * ((phase - centre) / width[:, None]) ** 2)

    one = np.ones(n, dtype=np.float32)
    wave = bump(0.15, 0.03 * one, 0.15 * (1 - y[:, 1]))
    wave += bump(0.30, 0.012 * one + 0.02 * (y[:, 4] + y[:, 5]), 1.0 + 0.8 * y[:, 9])
    wave += bump(0.42, 0.05 * one, 0.25 * (y[:, 6] - y[:, 7]))
    wave += bump(0.58, 0.06 * one, 0.3 * (1 - 2 * y[:, 8]))
    gain = np.array([1.0, 0.7, -0.5], dtype=np.float32)[None, :, None]
    x = wave[:, None, :].astype(np.float32) * gain
    x += 0.25 * rng.standard_normal(x.shape, dtype=np.float32)
    return torch.from_numpy(x), torch.from_numpy(y)


class StripData(L.LightningDataModule):
    def __init__(self, args):
        super().__init__()
        self.args = args

    def setup(self, stage=None):
        x, y = synth_strips(self.args.strips, self.args.length, self.args.seed)
        cut = int(0.92 * len(x))
        self.train_set = TensorDataset(x[:cut], y[:cut])
        self.val_set = TensorDataset(x[cut:], y[cut:])

    def train_dataloader(self):
        return DataLoader(self.train_set, batch_size=self.args.batch_size, shuffle=True, drop_last=True)

    def val_dataloader(self):
        return DataLoader(self.val_set, batch_size=256)


class ResBlock(nn.Module):
    def __init__(self, cin, cout, stride):
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv1d(cin, cout, 7, stride=stride, padding=3, bias=False), nn.BatchNorm1d(cout), nn.ReLU(),
            nn.Conv1d(cout, cout, 7, padding=3, bias=False), nn.BatchNorm1d(cout))
        self.skip = nn.Conv1d(cin, cout, 1, stride=stride) if (stride > 1 or cin != cout) else nn.Identity()

    def forward(self, x):
        return torch.relu(self.body(x) + self.skip(x))


class StatementNet(L.LightningModule):
    def __init__(self, width, lr, n_labels):
        super().__init__()
        self.save_hyperparameters()
        self.net = nn.Sequential(
            nn.Conv1d(3, width, 15, stride=2, padding=7), nn.ReLU(),
            ResBlock(width, width, 2), ResBlock(width, 2 * width, 2), ResBlock(2 * width, 2 * width, 2),
            nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Dropout(0.1), nn.Linear(2 * width, n_labels))
        self.criterion = nn.BCEWithLogitsLoss()
        scores = MetricCollection({
            "auroc": MultilabelAUROC(num_labels=n_labels),
            "ap": MultilabelAveragePrecision(num_labels=n_labels)})
        self.train_scores = scores.clone(prefix="train/")
        self.val_scores = scores.clone(prefix="val/")

    def forward(self, x):
        return self.net(x)

    def training_step(self, batch, batch_idx):
        x, y = batch
        logits = self(x)
        loss = self.criterion(logits, y)
        self.log("train/loss", loss)
        self.train_scores.update(logits.detach().sigmoid(), y.int())
        return loss

    def on_train_epoch_end(self):
        self.log_dict(self.train_scores.compute())
        self.train_scores.reset()

    def validation_step(self, batch, batch_idx):
        x, y = batch
        logits = self(x)
        self.log("val/loss", self.criterion(logits, y), prog_bar=True)
        self.val_scores.update(logits.sigmoid(), y.int())

    def on_validation_epoch_end(self):
        self.log_dict(self.val_scores.compute(), prog_bar=True)
        self.val_scores.reset()

    def configure_optimizers(self):
        opt = torch.optim.AdamW(self.parameters(), lr=self.hparams.lr, weight_decay=1e-2)
        total = self.trainer.estimated_stepping_batches
        sched = torch.optim.lr_scheduler.OneCycleLR(opt, max_lr=self.hparams.lr, total_steps=total)
        return {"optimizer": opt, "lr_scheduler": {"scheduler": sched, "interval": "step"}}


class Console(Callback):
    """One line every 50 steps: the progress bar does not go well with the cluster's log files."""

    def on_train_start(self, trainer, module):
        self.t0 = time.time()

    def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
        if trainer.global_step % 50 == 0:
            print(f"step {trainer.global_step:5d}  loss {outputs['loss'].item():.4f}  "
                  f"{time.time() - self.t0:.1f} s", flush=True)

    def on_validation_end(self, trainer, module):
        shown = {k: round(float(v), 4) for k, v in trainer.callback_metrics.items() if k.startswith("val/")}
        print("validation", shown, flush=True)


def main():
    args = parse_args()
    L.seed_everything(args.seed)
    model = StatementNet(args.width, args.lr, len(STATEMENTS))
    trainer = L.Trainer(
        accelerator="cpu", devices=1, max_epochs=args.epochs, max_steps=args.limit_steps,
        logger=CSVLogger(args.out, name="ecg"), log_every_n_steps=50, num_sanity_val_steps=0,
        gradient_clip_val=1.0, enable_progress_bar=False, enable_model_summary=False,
        callbacks=[Console(), LearningRateMonitor("step"),
                   ModelCheckpoint(dirpath=args.out, monitor="val/auroc", mode="max")])
    trainer.fit(model, datamodule=StripData(args))
    print("best", trainer.checkpoint_callback.best_model_score)


if __name__ == "__main__":
    main()
