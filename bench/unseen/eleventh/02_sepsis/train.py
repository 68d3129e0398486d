"""Early warning from ICU charts: a GRU reads 48 hours of vital signs and labs
and predicts whether the stay becomes septic.  Charts are simulated.
"""
import argparse
import logging
import warnings

import lightning as L
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset
from torchmetrics import MetricCollection
from torchmetrics.classification import BinaryAUROC, BinaryAveragePrecision

warnings.filterwarnings("ignore")
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)

HOURS, SIGNS = 48, 20


def simulate(n, seed):
    rng = np.random.default_rng(seed)
    y = (rng.random(n) < 0.2).astype(np.float32)
    x = rng.standard_normal((n, HOURS, SIGNS), dtype=np.float32)
    # slow drift of each sign, plus a deterioration towards the end of septic stays
    x[:, 1:] = 0.6 * x[:, :-1] + 0.8 * x[:, 1:]
    onset = rng.integers(20, 44, n)
    hours = np.arange(HOURS)[None]
    ramp = np.clip((hours - onset[:, None]) / 12.0, 0, 1).astype(np.float32)
    direction = np.random.default_rng(5).normal(size=SIGNS).astype(np.float32) * 0.5
    x += (y[:, None] * ramp)[:, :, None] * direction
    seen = rng.random((n, HOURS, SIGNS), dtype=np.float32) < 0.7
    return torch.from_numpy(x * seen), torch.from_numpy(seen.astype(np.float32)), torch.from_numpy(y)


class Charts(Dataset):
    """Whole batches are fetched by a list of indices."""

    def __init__(self, n, seed):
        self.x, self.seen, self.y = simulate(n, seed)

    def __len__(self):
        return len(self.y)

    def __getitems__(self, idx):
        idx = torch.as_tensor(idx)
        return torch.cat([self.x[idx], self.seen[idx]], dim=-1), self.y[idx]


class EarlyWarning(L.LightningModule):
    def __init__(self, hidden=48, lr=1e-3, pos_weight=4.0):
        super().__init__()
        self.lr = lr
        self.inp = nn.Sequential(nn.Linear(2 * SIGNS, hidden), nn.ReLU())
        self.rnn = nn.GRU(hidden, hidden, batch_first=True)
        self.head = nn.Sequential(nn.Linear(2 * hidden, 64), nn.ReLU(), nn.Linear(64, 1))
        self.register_buffer("pos_weight", torch.tensor(pos_weight))
        scores = MetricCollection({"auroc": BinaryAUROC(), "auprc": BinaryAveragePrecision()})
        self.train_scores = scores.clone(prefix="train/")
        self.val_scores = scores.clone(prefix="val/")

    def forward(self, x):
        h, _ = self.rnn(self.inp(x))
        return self.head(torch.cat([h[:, -1], h.mean(1)], dim=-1)).squeeze(-1)

    def loss(self, logits, y):
        return nn.functional.binary_cross_entropy_with_logits(logits, y, pos_weight=self.pos_weight)

    def training_step(self, batch, batch_idx):
        x, y = batch
        logits = self(x)
        loss = self.loss(logits, y)
        self.train_scores.update(logits.detach().sigmoid(), y.long())
        self.log("train/loss", loss, prog_bar=False)
        self.log_dict(self.train_scores.compute())
        return loss

    def on_train_epoch_end(self):
        final = self.train_scores.compute()
        print({k: round(float(v), 4) for k, v in final.items()})
        self.train_scores.reset()

    def validation_step(self, batch, batch_idx):
        x, y = batch
        logits = self(x)
        self.val_scores.update(logits.sigmoid(), y.long())
        self.log("val/loss", self.loss(logits, y))

    def on_validation_epoch_end(self):
        self.log_dict(self.val_scores.compute())
        self.val_scores.reset()

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=self.lr, weight_decay=1e-4)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=2)
    ap.add_argument("--stays", type=int, default=64_000)
    ap.add_argument("--batch", type=int, default=64)
    args = ap.parse_args()
    L.seed_everything(0, verbose=False)

    train = Charts(args.stays, seed=1)
    val = Charts(2000, seed=2)
    loaders = (DataLoader(train, args.batch, shuffle=True, drop_last=True, collate_fn=lambda b: b),
               DataLoader(val, 500, collate_fn=lambda b: b))
    trainer = L.Trainer(max_epochs=args.epochs, accelerator="cpu", logger=False,
                        enable_checkpointing=False, enable_progress_bar=False,
                        enable_model_summary=False, num_sanity_val_steps=0)
    trainer.fit(EarlyWarning(), *loaders)
    print({k: round(float(v), 4) for k, v in trainer.callback_metrics.items()})


if __name__ == "__main__":
    main()
