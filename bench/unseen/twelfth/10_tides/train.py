"""Forecast tide gauges with an orthogonal recurrent network, Lightning."""
import argparse
import tempfile
import time

import lightning as L
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from lightning.pytorch.callbacks import Callback, LearningRateMonitor, ModelCheckpoint
from lightning.pytorch.loggers import CSVLogger
from torch.nn.utils.parametrizations import orthogonal
from torch.utils.data import DataLoader, TensorDataset

PAST, AHEAD, CHANNELS = 36, 6, 4


def gauges(n, seed):
    """Water level, pressure and wind at a gauge: tidal constituents, surge and noise."""
    rng = np.random.default_rng(seed)
    t = np.arange(PAST + AHEAD)[None, :] + rng.uniform(0, 5000, (n, 1))
    level = np.zeros_like(t)
    for period, amp in [(12.42, 1.0), (12.0, 0.45), (25.82, 0.3), (23.93, 0.2)]:
        level += amp * rng.uniform(0.7, 1.3, (n, 1)) * np.sin(2 * np.pi * t / period)
    wind = np.cumsum(rng.normal(0, 0.2, (n, t.shape[1], 2)), axis=1)
    pressure = np.cumsum(rng.normal(0, 0.1, t.shape), axis=1)
    level += 0.1 * wind[..., 0] - 0.2 * pressure + rng.normal(0, 0.03, t.shape)
    x = np.concatenate([level[..., None], pressure[..., None], wind], axis=-1).astype(np.float32)
    return torch.from_numpy(x[:, :PAST]), torch.from_numpy(x[:, PAST:, 0])


class ModReLU(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.bias = nn.Parameter(torch.zeros(n).uniform_(-0.01, 0.01))

    def forward(self, z):
        return torch.sign(z) * F.relu(z.abs() + self.bias)


class OrthogonalRNN(nn.Module):
    def __init__(self, n_in, n_hidden):
        super().__init__()
        self.n_hidden = n_hidden
        self.inp = nn.Linear(n_in, n_hidden)
        self.rec = orthogonal(nn.Linear(n_hidden, n_hidden, bias=False))
        self.act = ModReLU(n_hidden)

    def forward(self, x):
        h = x.new_zeros(x.shape[0], self.n_hidden)
        u = self.inp(x)
        states = []
        for t in range(x.shape[1]):
            h = self.act(u[:, t] + self.rec(h))
            states.append(h)
        return torch.stack(states, 1)


class TideModel(L.LightningModule):
    def __init__(self, hidden=64, lr=1e-3, total=1000):
        super().__init__()
        self.save_hyperparameters()
        self.embed = nn.Sequential(nn.Linear(CHANNELS, 96), nn.GELU(), nn.Linear(96, 64))
        self.rnn = OrthogonalRNN(64, hidden)
        self.mix = nn.Sequential(nn.LayerNorm(hidden), nn.Linear(hidden, 128), nn.GELU())
        self.head = nn.Sequential(nn.Linear(256, 128), nn.GELU(), nn.Linear(128, AHEAD))

    def forward(self, x):
        s = self.mix(self.rnn(self.embed(x)))
        return self.head(torch.cat([s[:, -1], s.mean(1)], dim=-1)) + x[:, -1:, 0]

    def training_step(self, batch, _):
        x, y = batch
        loss = F.smooth_l1_loss(self(x), y)
        self.log("train_loss", loss)
        return loss

    def validation_step(self, batch, _):
        x, y = batch
        err = self(x) - y
        self.log_dict({"val_rmse": err.square().mean().sqrt(), "val_mae": err.abs().mean()})

    def configure_optimizers(self):
        opt = torch.optim.AdamW(self.parameters(), lr=self.hparams.lr, fused=True)
        sched = torch.optim.lr_scheduler.OneCycleLR(opt, self.hparams.lr * 3, total_steps=self.hparams.total)
        return {"optimizer": opt, "lr_scheduler": {"scheduler": sched, "interval": "step"}}


class Report(Callback):
    def on_train_start(self, trainer, module):
        self.start = time.perf_counter()

    def on_validation_epoch_end(self, trainer, module):
        if not trainer.sanity_checking:
            m = trainer.callback_metrics
            print(f"step {trainer.global_step:5d} rmse {m['val_rmse']:.4f} mae {m['val_mae']:.4f} "
                  f"{time.perf_counter() - self.start:.1f}s", flush=True)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=600)
    ap.add_argument("--batch", type=int, default=256)
    args = ap.parse_args()
    L.seed_everything(3, verbose=False)

    train = DataLoader(TensorDataset(*gauges(25_600, 1)), batch_size=args.batch, shuffle=True, drop_last=True)
    val = DataLoader(TensorDataset(*gauges(1_024, 2)), batch_size=512)
    model = TideModel(total=args.steps)
    with tempfile.TemporaryDirectory() as out:
        trainer = L.Trainer(
            accelerator="cpu",
            max_steps=args.steps,
            gradient_clip_val=1.0,
            logger=CSVLogger(out, name="tides"),
            log_every_n_steps=20,
            callbacks=[ModelCheckpoint(dirpath=out, monitor="val_rmse", save_top_k=1),
                       LearningRateMonitor("step"), Report()],
            enable_progress_bar=False,
            enable_model_summary=False,
        )
        trainer.fit(model, train, val)


if __name__ == "__main__":
    main()
