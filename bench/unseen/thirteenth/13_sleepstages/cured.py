"""Sleep stage classifier on two-channel EEG (30 s windows at 64 Hz), with Lightning.

The recordings are simulated: each stage has its own mixture of rhythms, nights follow a Markov chain.
"""
import argparse
import logging

import lightning as L
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from lightning.pytorch.callbacks import Callback, LearningRateMonitor, ModelCheckpoint
from lightning.pytorch.loggers import CSVLogger
from torch.utils.data import DataLoader, TensorDataset

FS = 64
SECONDS = 30
STAGES = ["W", "N1", "N2", "N3", "REM"]
# (frequency in Hz, amplitude) of the rhythms of each stage
RHYTHMS = {
    "W": [(10.0, 1.2), (20.0, 0.6)],
    "N1": [(6.0, 1.0), (9.0, 0.5)],
    "N2": [(13.0, 0.8), (4.0, 1.0)],
    "N3": [(1.0, 2.2), (2.5, 1.4)],
    "REM": [(5.0, 0.9), (18.0, 0.5)],
}
TRANSITIONS = np.array([
    [0.85, 0.12, 0.01, 0.00, 0.02],
    [0.08, 0.66, 0.22, 0.00, 0.04],
    [0.03, 0.05, 0.80, 0.08, 0.04],
    [0.01, 0.01, 0.10, 0.88, 0.00],
    [0.04, 0.05, 0.03, 0.00, 0.88],
])


def simulate_night(windows, rng):
    t = np.arange(FS * SECONDS, dtype=np.float32) / FS
    stages = np.zeros(windows, dtype=np.int64)
    signal = rng.normal(0, 1.0, (windows, 2, t.size)).astype(np.float32)
    for i in range(windows):
        if i:
            stages[i] = rng.choice(len(STAGES), p=TRANSITIONS[stages[i - 1]])
        for freq, amp in RHYTHMS[STAGES[stages[i]]]:
            f = freq * rng.uniform(0.9, 1.1)
            wave = amp * np.sin(2 * np.pi * f * t + rng.uniform(0, 6.28))
            signal[i, 0] += wave
            signal[i, 1] += rng.uniform(0.4, 0.9) * wave
    return torch.from_numpy(signal), torch.from_numpy(stages)


def make_split(nights, windows, seed):
    rng = np.random.default_rng(seed)
    parts = [simulate_night(windows, rng) for _ in range(nights)]
    x = torch.cat([p[0] for p in parts])
    x = (x - x.mean(-1, keepdim=True)) / x.std(-1, keepdim=True)
    return TensorDataset(x, torch.cat([p[1] for p in parts]))


class ResidualBlock(nn.Module):
    def __init__(self, width, dilation):
        super().__init__()
        self.norm1 = nn.GroupNorm(4, width)
        self.conv1 = nn.Conv1d(width, width, 3, padding=dilation, dilation=dilation)
        self.norm2 = nn.GroupNorm(4, width)
        self.conv2 = nn.Conv1d(width, width, 3, padding=1)

    def forward(self, x):
        h = self.conv1(F.silu(self.norm1(x)))
        return x + self.conv2(F.silu(self.norm2(h)))


class SleepNet(nn.Module):
    def __init__(self, width=24, depth=14, classes=len(STAGES)):
        super().__init__()
        self.stem = nn.Conv1d(2, width, 17, stride=8, padding=8)
        self.blocks = nn.Sequential(*[ResidualBlock(width, 2 ** (i % 5)) for i in range(depth)])
        self.head = nn.Sequential(nn.LayerNorm(2 * width), nn.Linear(2 * width, 64), nn.SiLU(), nn.Linear(64, classes))

    def forward(self, x):
        h = self.blocks(self.stem(x))
        return self.head(torch.cat([h.mean(-1), h.amax(-1)], dim=1))


class DynamicsMonitor(Callback):
    """Gradient norm, weight norm and their ratio for each parameter of the network."""

    def on_before_optimizer_step(self, trainer, pl_module, optimizer):
        if (trainer.global_step + 1) % trainer.log_every_n_steps:
            return
        lr = optimizer.param_groups[0]["lr"]
        for name, p in pl_module.net.named_parameters():
            if p.grad is None:
                continue
            g, w = p.grad.norm(), p.detach().norm()
            pl_module.log(f"grad_norm/{name}", g)
            pl_module.log(f"weight_norm/{name}", w)
            pl_module.log(f"update_ratio/{name}", lr * g / (w + 1e-8))


class SleepStager(L.LightningModule):
    def __init__(self, lr=2e-3, total_steps=1000):
        super().__init__()
        self.save_hyperparameters()
        self.net = SleepNet()

    def training_step(self, batch, batch_idx):
        x, y = batch
        logits = self.net(x)
        loss = F.cross_entropy(logits, y, label_smoothing=0.05)
        self.log("train/loss", loss, prog_bar=True)
        self.log("train/acc", (logits.argmax(1) == y).float().mean())
        return loss

    def validation_step(self, batch, batch_idx):
        x, y = batch
        logits = self.net(x)
        self.log("val/loss", F.cross_entropy(logits, y), prog_bar=True)
        self.log("val/acc", (logits.argmax(1) == y).float().mean(), prog_bar=True)

    def configure_optimizers(self):
        opt = torch.optim.AdamW(self.parameters(), lr=self.hparams.lr, weight_decay=0.02)
        sched = torch.optim.lr_scheduler.OneCycleLR(opt, self.hparams.lr, total_steps=self.hparams.total_steps)
        return {"optimizer": opt, "lr_scheduler": {"scheduler": sched, "interval": "step"}}


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=3)
    ap.add_argument("--batch-size", type=int, default=32)
    ap.add_argument("--nights", type=int, default=8)
    ap.add_argument("--windows", type=int, default=380)
    ap.add_argument("--out", default="/tmp/sleepstages")
    args = ap.parse_args()
    logging.getLogger("lightning.pytorch").setLevel(logging.WARNING)
    L.seed_everything(5)

    train = make_split(args.nights, args.windows, seed=1)
    val = make_split(1, args.windows, seed=2)
    train_loader = DataLoader(train, args.batch_size, shuffle=True, drop_last=True)
    val_loader = DataLoader(val, 128)

    model = SleepStager(total_steps=args.epochs * len(train_loader))
    trainer = L.Trainer(
        max_epochs=args.epochs,
        accelerator="cpu",
        gradient_clip_val=1.0,
        logger=CSVLogger(args.out),
        log_every_n_steps=50,
        enable_progress_bar=False,
        enable_model_summary=False,
        num_sanity_val_steps=0,
        callbacks=[
            LearningRateMonitor("step"),
            DynamicsMonitor(),
            ModelCheckpoint(monitor="val/loss", save_top_k=1, dirpath=args.out),
        ],
    )
    trainer.fit(model, train_loader, val_loader)
    print({k: round(float(v), 4) for k, v in trainer.callback_metrics.items() if k.startswith("val/")})


if __name__ == "__main__":
    main()
