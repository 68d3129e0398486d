"""Remaining-useful-life regression for pumps from windows of sensor readings (Lightning)."""
import logging
import time
import warnings

import lightning as L
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset

logging.getLogger("lightning.pytorch").setLevel(logging.WARNING)
warnings.filterwarnings("ignore", ".*does not have many workers.*")

WINDOW = 48
SENSORS = 10


def simulate_pumps(n_pumps, seed):
    """Degradation curves: every pump drifts towards failure, sensors see it with noise."""
    rng = np.random.default_rng(seed)
    runs = []
    for _ in range(n_pumps):
        life = int(rng.integers(140, 240))
        wear = (np.arange(life) / life) ** rng.uniform(1.5, 3.0)
        gain = rng.normal(0, 1, SENSORS)
        readings = wear[:, None] * gain + 0.2 * rng.normal(size=(life, SENSORS))
        readings += 0.3 * np.sin(np.arange(life)[:, None] / 12 + rng.uniform(0, 6, SENSORS))
        rul = np.arange(life)[::-1] / 200.0
        runs.append((readings.astype(np.float32), rul.astype(np.float32)))
    return runs


class WindowSet(Dataset):
    def __init__(self, runs, stride):
        self.runs = runs
        self.index = [
            (r, s) for r, (x, _) in enumerate(runs) for s in range(0, len(x) - WINDOW, stride)
        ]

    def __len__(self):
        return len(self.index)

    def __getitem__(self, i):
        r, s = self.index[i]
        x, rul = self.runs[r]
        return torch.from_numpy(x[s:s + WINDOW]), torch.tensor(rul[s + WINDOW - 1])


class PumpData(L.LightningDataModule):
    def __init__(self, batch_size=64, num_workers=2):
        super().__init__()
        self.save_hyperparameters()

    def setup(self, stage=None):
        self.train_set = WindowSet(simulate_pumps(48, seed=0), stride=10)
        self.val_set = WindowSet(simulate_pumps(10, seed=1), stride=8)

    def train_dataloader(self):
        return DataLoader(
            self.train_set,
            batch_size=self.hparams.batch_size,
            shuffle=True,
            drop_last=True,
            num_workers=self.hparams.num_workers,
        )

    def val_dataloader(self):
        return DataLoader(self.val_set, batch_size=128, num_workers=self.hparams.num_workers)


class RULModel(L.LightningModule):
    def __init__(self, hidden=48, lr=3e-3, max_epochs=60):
        super().__init__()
        self.save_hyperparameters()
        self.conv = nn.Conv1d(SENSORS, hidden, kernel_size=5, padding=2)
        self.gru = nn.GRU(hidden, hidden, batch_first=True)
        self.head = nn.Sequential(nn.Linear(hidden, 32), nn.ReLU(), nn.Linear(32, 1))

    def forward(self, x):
        h = F.relu(self.conv(x.transpose(1, 2))).transpose(1, 2)
        out, _ = self.gru(h)
        return self.head(out[:, -1]).squeeze(1)

    def training_step(self, batch, batch_idx):
        x, y = batch
        loss = F.mse_loss(self(x), y)
        self.log("train_loss", loss, on_step=False, on_epoch=True)
        return loss

    def validation_step(self, batch, batch_idx):
        x, y = batch
        self.log("val_mae", (self(x) - y).abs().mean() * 200, on_epoch=True)

    def configure_optimizers(self):
        opt = torch.optim.Adam(self.parameters(), lr=self.hparams.lr)
        sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, T_max=self.hparams.max_epochs)
        return [opt], [sched]


class EpochPrinter(L.Callback):
    def on_fit_start(self, trainer, pl_module):
        self.t0 = time.time()

    def on_train_epoch_end(self, trainer, pl_module):
        if (trainer.current_epoch + 1) % 10 == 0:
            m = trainer.callback_metrics
            rate = trainer.global_step / (time.time() - self.t0)
            print(
                f"epoch {trainer.current_epoch + 1:3d}  train mse {m['train_loss']:.4f}  "
                f"val MAE {m['val_mae']:.1f} cycles  {rate:.1f} it/s"
            )


if __name__ == "__main__":
    EPOCHS = 80
    L.seed_everything(5)
    trainer = L.Trainer(
        max_epochs=EPOCHS,
        accelerator="cpu",
        devices=1,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        callbacks=[EpochPrinter()],
        gradient_clip_val=1.0,
        log_every_n_steps=10,
    )
    trainer.fit(RULModel(max_epochs=EPOCHS), datamodule=PumpData())
    print("finished after", trainer.global_step, "steps")
