"""Early warning of sepsis: hour by hour risk from vital signs and lab values (Lightning)."""
import argparse
import warnings

import lightning as L
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, Dataset
from torchmetrics.classification import BinaryAUROC

warnings.filterwarnings("ignore", ".*does not have many workers.*")
HOURS, SIGNS = 48, 24


def make_stays(n, seed):
    """Stays of 48 hours; in some a slow drift of a few signs begins at the onset."""
    rng = np.random.default_rng(seed)
    noise = rng.standard_normal((n, HOURS, SIGNS), dtype=np.float32)
    x = np.zeros_like(noise)
    x[:, 0] = noise[:, 0]
    for t in range(1, HOURS):
        x[:, t] = 0.85 * x[:, t - 1] + 0.5 * noise[:, t]
    onset = np.where(rng.random(n) < 0.3, rng.integers(8, HOURS, n), 10 * HOURS)
    hours = np.arange(HOURS)
    drift = np.clip(hours[None] - onset[:, None] + 8, 0, 12) * 0.12
    direction = np.zeros(SIGNS, dtype=np.float32)
    direction[[0, 3, 5, 11]] = [1.0, -0.8, 0.7, 0.5]
    x += (drift[:, :, None] * direction).astype(np.float32)
    seen = rng.random((n, HOURS, SIGNS)) < 0.7
    y = (hours[None] >= onset[:, None] - 6).astype(np.float32)
    x = np.concatenate([x * seen, seen.astype(np.float32)], -1)
    return torch.from_numpy(x), torch.from_numpy(y)


class Stays(Dataset):
    def __init__(self, n, seed):
        self.x, self.y = make_stays(n, seed)

    def __len__(self):
        return len(self.x)

    def __getitem__(self, i):
        return self.x[i], self.y[i]

    def __getitems__(self, idx):
        idx = torch.as_tensor(idx)
        return self.x[idx], self.y[idx]


def whole(batch):
    return batch


class CausalBlock(nn.Module):
    def __init__(self, width, dilation):
        super().__init__()
        self.reach = 2 * dilation
        self.conv = nn.Conv1d(width, width, 3, dilation=dilation)
        self.mix = nn.Conv1d(width, width, 1)

    def forward(self, x):
        return x + self.mix(F.relu(self.conv(F.pad(x, (self.reach, 0)))))


class Sepsis(L.LightningModule):
    def __init__(self, width=64, lr=1e-3):
        super().__init__()
        self.lr = lr
        self.enter = nn.Conv1d(2 * SIGNS, width, 1)
        self.body = nn.Sequential(*[CausalBlock(width, d) for d in (1, 2, 4, 8)])
        self.leave = nn.Conv1d(width, 1, 1)
        self.register_buffer("rarity", torch.tensor(3.0))
        self.train_auroc = BinaryAUROC()
        self.val_auroc = BinaryAUROC()

    def forward(self, x):
        return self.leave(self.body(self.enter(x.transpose(1, 2)))).squeeze(1)

    def training_step(self, batch, _):
        x, y = batch
        logits = self(x)
        loss = F.binary_cross_entropy_with_logits(logits, y, pos_weight=self.rarity)
        self.train_auroc.update(logits.detach().flatten(), y.flatten().long())
        self.log("train_loss", loss)
        self.log("train_auroc", self.train_auroc.compute())
        return loss

    def on_train_epoch_end(self):
        m = self.trainer.callback_metrics
        line = "  ".join(f"{k} {v.item():.4f}" for k, v in sorted(m.items()))
        print(f"epoch {self.current_epoch}: {line}", flush=True)
        self.train_auroc.reset()

    def validation_step(self, batch, _):
        x, y = batch
        logits = self(x)
        self.val_auroc.update(logits.flatten(), y.flatten().long())
        self.log("val_loss", F.binary_cross_entropy_with_logits(logits, y, pos_weight=self.rarity))
        self.log("val_auroc", self.val_auroc, on_epoch=True)

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=self.lr, weight_decay=1e-3, fused=True)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=5)
    ap.add_argument("--steps", type=int, default=-1)
    ap.add_argument("--stays", type=int, default=16384)
    ap.add_argument("--batch", type=int, default=128)
    args = ap.parse_args()

    L.seed_everything(0, verbose=False)
    train = DataLoader(Stays(args.stays, 1), batch_size=args.batch, shuffle=True,
                       drop_last=True, collate_fn=whole)
    val = DataLoader(Stays(1024, 2), batch_size=512, collate_fn=whole)
    trainer = L.Trainer(
        accelerator="cpu",
        devices=1,
        max_epochs=args.epochs,
        max_steps=args.steps,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
        num_sanity_val_steps=0,
        gradient_clip_val=1.0,
    )
    trainer.fit(Sepsis(), train, val)


if __name__ == "__main__":
    main()
