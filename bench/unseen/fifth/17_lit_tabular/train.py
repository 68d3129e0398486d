"""Claim frequency model on a mixed table (numeric + categorical) with Lightning."""
import lightning as L
import numpy as np
import pandas as pd
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import BatchSampler, DataLoader, RandomSampler, TensorDataset

CARDINALITY = {"region": 22, "brand": 11, "fuel": 4, "garage": 9, "colour": 14}
NUMERIC = ["age", "power", "bonus", "density", "km", "value"]


def synthetic_portfolio(n=160_000, seed=8):
    rng = np.random.default_rng(seed)
    df = pd.DataFrame({c: rng.integers(0, k, n) for c, k in CARDINALITY.items()})
    df["age"] = rng.gamma(6, 7, n) + 18
    df["power"] = rng.normal(80, 25, n)
    df["bonus"] = rng.beta(2, 5, n) * 150 + 50
    df["density"] = np.exp(rng.normal(5, 1.5, n))
    df["km"] = rng.gamma(3, 5000, n)
    df["value"] = np.exp(rng.normal(9.5, 0.5, n))
    effect = {c: rng.normal(0, 0.25, k) for c, k in CARDINALITY.items()}
    eta = -1.6 + sum(effect[c][df[c].to_numpy()] for c in CARDINALITY)
    eta += 0.35 * np.log(df["km"] / 10_000) + 0.012 * (df["bonus"] - 90) - 0.01 * (df["age"] - 45)
    df["claims"] = rng.poisson(np.exp(np.clip(eta, -6, 2)))
    return df


class Claims(L.LightningDataModule):
    def __init__(self, batch_size=2048):
        super().__init__()
        self.batch_size = batch_size

    def setup(self, stage=None):
        if hasattr(self, "train_set"):
            return
        df = synthetic_portfolio()
        num = df[NUMERIC].copy()
        num[["density", "km", "value"]] = np.log(num[["density", "km", "value"]])
        num = ((num - num.mean()) / num.std()).to_numpy(np.float32)
        cat = df[list(CARDINALITY)].to_numpy(np.int64)
        tensors = [torch.from_numpy(num), torch.from_numpy(cat),
                   torch.from_numpy(df["claims"].to_numpy(np.float32))]
        cut = int(0.9 * len(df))
        self.train_set = TensorDataset(*[t[:cut] for t in tensors])
        self.val_set = TensorDataset(*[t[cut:] for t in tensors])

    def _loader(self, ds, shuffle):
        order = RandomSampler(ds) if shuffle else range(len(ds))
        return DataLoader(ds, sampler=BatchSampler(order, self.batch_size, drop_last=shuffle), batch_size=None)

    def train_dataloader(self):
        return self._loader(self.train_set, True)

    def val_dataloader(self):
        return self._loader(self.val_set, False)


class FrequencyNet(L.LightningModule):
    def __init__(self, width=256, lr=2e-3):
        super().__init__()
        self.lr = lr
        self.emb = nn.ModuleList([nn.Embedding(k, 8) for k in CARDINALITY.values()])
        dim = 8 * len(CARDINALITY) + len(NUMERIC)
        self.inp = nn.Linear(dim, width)
        self.blocks = nn.ModuleList([
            nn.Sequential(nn.LayerNorm(width), nn.Linear(width, width), nn.GELU(), nn.Linear(width, width))
            for _ in range(2)
        ])
        self.out = nn.Linear(width, 1)

    def forward(self, num, cat):
        h = self.inp(torch.cat([num] + [e(cat[:, i]) for i, e in enumerate(self.emb)], dim=1))
        for block in self.blocks:
            h = h + block(h)
        return self.out(h).squeeze(1)

    def training_step(self, batch, batch_idx):
        num, cat, y = batch
        loss = F.poisson_nll_loss(self(num, cat), y)
        self.log("train_nll", loss, on_step=False, on_epoch=True)
        return loss

    def validation_step(self, batch, batch_idx):
        num, cat, y = batch
        self.log("val_nll", F.poisson_nll_loss(self(num, cat), y), batch_size=len(y))

    def on_train_epoch_end(self):
        m = self.trainer.callback_metrics
        print(f"epoch {self.current_epoch}: train {m['train_nll']:.4f} val {m['val_nll']:.4f}", flush=True)

    def configure_optimizers(self):
        opt = torch.optim.AdamW(self.parameters(), lr=self.lr, weight_decay=1e-4, fused=True)
        total = self.trainer.estimated_stepping_batches
        sched = torch.optim.lr_scheduler.OneCycleLR(opt, 2 * self.lr, total_steps=total)
        return [opt], [{"scheduler": sched, "interval": "step"}]


if __name__ == "__main__":
    L.seed_everything(0)
    trainer = L.Trainer(max_epochs=10, accelerator="cpu", logger=False, enable_checkpointing=False,
                        enable_progress_bar=False, num_sanity_val_steps=0)
    trainer.fit(FrequencyNet(), datamodule=Claims())
    trainer.save_checkpoint("/tmp/claims_last.ckpt", weights_only=True)
