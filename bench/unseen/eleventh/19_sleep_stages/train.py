"""Sleep staging: one label for each epoch of a recording, with a transformer over the night, in Lightning."""
import argparse
import warnings

import lightning as L
import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.data import DataLoader, TensorDataset

STAGES = 5
warnings.filterwarnings("ignore", ".*num_workers.*")


def make_nights(n, length, bands, seed):
    """Stages walk as a Markov chain; every epoch shows noisy band powers of its stage."""
    rng = np.random.default_rng(seed)
    move = np.full((STAGES, STAGES), 0.02) + np.eye(STAGES) * 0.9
    edges = (move / move.sum(1, keepdims=True)).cumsum(1)
    centres = np.random.default_rng(7).normal(0, 1, (STAGES, bands))
    stage = np.zeros((n, length), dtype=np.int64)
    draws = rng.random((n, length))
    for t in range(1, length):
        stage[:, t] = (draws[:, t, None] > edges[stage[:, t - 1]]).sum(1).clip(0, STAGES - 1)
    shift = rng.normal(0, 0.5, (n, 1, bands))
    x = centres[stage] + shift + rng.normal(0, 1.6, (n, length, bands))
    return TensorDataset(torch.from_numpy(x.astype(np.float32)), torch.from_numpy(stage))


class Block(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.attn = nn.MultiheadAttention(dim, heads, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(dim, 2 * dim), nn.GELU(), nn.Linear(2 * dim, dim))
        self.drop = nn.Dropout(0.1)

    def forward(self, x):
        h = self.norm1(x)
        h, _ = self.attn(h, h, h)
        x = x + self.drop(h)
        return x + self.drop(self.mlp(self.norm2(x)))


class Stager(L.LightningModule):
    def __init__(self, bands, length, dim=64, heads=4, layers=2, lr=1e-3):
        super().__init__()
        self.lr = lr
        self.embed = nn.Linear(bands, dim)
        self.place = nn.Parameter(torch.randn(length, dim) * 0.02)
        self.blocks = nn.ModuleList(Block(dim, heads) for _ in range(layers))
        self.head = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, STAGES))

    def forward(self, x):
        h = self.embed(x) + self.place
        for block in self.blocks:
            h = block(h)
        return self.head(h)

    def training_step(self, batch, batch_idx):
        x, stage = batch
        logits = self(x)
        loss = F.cross_entropy(logits.flatten(0, 1), stage.flatten(), label_smoothing=0.05)
        self.log("train_loss", loss, prog_bar=True)
        return loss

    def validation_step(self, batch, batch_idx):
        x, stage = batch
        logits = self(x)
        self.log("valid_loss", F.cross_entropy(logits.flatten(0, 1), stage.flatten()))
        self.log("valid_acc", (logits.argmax(-1) == stage).float().mean(), prog_bar=True)

    def configure_optimizers(self):
        opt = torch.optim.AdamW(self.parameters(), lr=self.lr, weight_decay=0.01)
        sched = torch.optim.lr_scheduler.CosineAnnealingLR(opt, T_max=max(1, self.trainer.max_steps))
        return {"optimizer": opt, "lr_scheduler": {"scheduler": sched, "interval": "step"}}


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--steps", type=int, default=450)
    ap.add_argument("--batch-size", type=int, default=2)
    ap.add_argument("--length", type=int, default=960)
    ap.add_argument("--bands", type=int, default=24)
    args = ap.parse_args()
    L.seed_everything(0)
    train_set = make_nights(400, args.length, args.bands, seed=1)
    valid_set = make_nights(16, args.length, args.bands, seed=2)
    train_loader = DataLoader(train_set, batch_size=args.batch_size, shuffle=True, drop_last=True)
    valid_loader = DataLoader(valid_set, batch_size=2 * args.batch_size)
    trainer = L.Trainer(max_steps=args.steps, accelerator="cpu", logger=False, enable_checkpointing=False, check_val_every_n_epoch=2,
                        gradient_clip_val=1.0, num_sanity_val_steps=0, enable_model_summary=False)
    trainer.fit(Stager(args.bands, args.length), train_loader, valid_loader)
    print({k: round(float(v), 4) for k, v in trainer.callback_metrics.items()})


if __name__ == "__main__":
    main()
