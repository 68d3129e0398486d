"""Frame-level sound event detection (one event class) with Lightning."""
import logging
import tempfile
import time
import warnings

import lightning as L
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from lightning.pytorch.loggers import CSVLogger
from torch.utils.data import DataLoader, TensorDataset
from torchmetrics.classification import BinaryAUROC

warnings.filterwarnings("ignore", ".*does not have many workers.*")
logging.getLogger("lightning.pytorch").setLevel(logging.WARNING)

N_MELS = 40
N_FRAMES = 200


def make_clips(n, seed):
    """Log-mel like clips: coloured noise with a few chirps in it."""
    rng = np.random.default_rng(seed)
    mel = rng.standard_normal((n, N_MELS, N_FRAMES), dtype=np.float32)
    label = np.zeros((n, N_FRAMES), dtype=np.float32)
    for k in range(n):
        for _ in range(rng.integers(1, 4)):
            t0 = int(rng.integers(0, N_FRAMES - 40))
            length = int(rng.integers(10, 40))
            band = int(rng.integers(5, N_MELS - 8))
            mel[k, band : band + 6, t0 : t0 + length] += 0.8
            label[k, t0 : t0 + length] = 1.0
    return TensorDataset(torch.from_numpy(mel), torch.from_numpy(label))


class ConvBlock(nn.Module):
    def __init__(self, c_in, c_out, dilation=1):
        super().__init__()
        self.conv = nn.Conv1d(c_in, c_out, 5, padding=2 * dilation, dilation=dilation)
        self.norm = nn.BatchNorm1d(c_out)

    def forward(self, x):
        return F.relu(self.norm(self.conv(x)))


class EventDetector(L.LightningModule):
    def __init__(self, width=32, lr=2e-3):
        super().__init__()
        self.lr = lr
        self.net = nn.Sequential(
            ConvBlock(N_MELS, width),
            ConvBlock(width, width, dilation=2),
            ConvBlock(width, width, dilation=4),
            nn.Conv1d(width, 1, 1),
        )
        self.train_auroc = BinaryAUROC()
        self.val_auroc = BinaryAUROC()

    def forward(self, mel):
        return self.net(mel).squeeze(1)

    def training_step(self, batch, batch_idx):
        mel, label = batch
        logits = self(mel)
        loss = F.binary_cross_entropy_with_logits(logits, label)
        self.train_auroc.update(logits.detach().sigmoid(), label.int())
        self.log("train_loss", loss)
        self.log("train_auroc", self.train_auroc.compute())
        return loss

    def on_train_epoch_end(self):
        self.train_auroc.reset()

    def validation_step(self, batch, batch_idx):
        mel, label = batch
        logits = self(mel)
        self.val_auroc.update(logits.sigmoid(), label.int())
        self.log("val_loss", F.binary_cross_entropy_with_logits(logits, label))

    def on_validation_epoch_end(self):
        auroc = self.val_auroc.compute()
        self.log("val_auroc", auroc)
        self.val_auroc.reset()
        if not self.trainer.sanity_checking:
            print(f"epoch {self.current_epoch}: val auroc {auroc.item():.4f}", flush=True)

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=self.lr, weight_decay=1e-4)


def main():
    L.seed_everything(1)
    train = DataLoader(make_clips(1920, 0), batch_size=32, shuffle=True, drop_last=True)
    val = DataLoader(make_clips(256, 1), batch_size=64)

    with tempfile.TemporaryDirectory() as tmp:
        trainer = L.Trainer(
            max_epochs=14,
            accelerator="cpu",
            logger=CSVLogger(tmp),
            log_every_n_steps=20,
            enable_checkpointing=False,
            enable_progress_bar=False,
            enable_model_summary=False,
        )
        start = time.time()
        trainer.fit(EventDetector(), train, val)
        print(f"done: {trainer.global_step} steps in {time.time() - start:.1f} s")
        print({k: round(v.item(), 4) for k, v in trainer.callback_metrics.items()})


if __name__ == "__main__":
    main()
