"""Scores school essays (four bands) with a small transformer and keeps the training dynamics of each essay.

The dynamics (probability of the gold band, correctness, margin) go to training_dynamics.csv and are later drawn as a
"data map": easy, ambiguous and hard-to-learn essays, as in dataset cartography.
"""
import argparse
import math
import os

import lightning as L
import numpy as np
import pandas as pd
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset, random_split

BANDS = 4
VOCAB = 4000


def make_essays(count, length, seed):
    """Token ids by topic and skill: a better writer uses a wider part of the vocabulary."""
    rng = np.random.default_rng(seed)
    band = rng.integers(0, BANDS, count)
    topic = rng.integers(0, 6, count)
    width = 300 + 500 * band + rng.integers(-150, 150, count)
    zipf = np.minimum(rng.zipf(1.3, (count, length)), 100_000)
    tokens = (zipf * (7 + topic[:, None])) % width[:, None] + 2
    noisy = rng.random(count) < 0.08
    band[noisy] = rng.integers(0, BANDS, noisy.sum())
    return torch.from_numpy(tokens.astype(np.int64)), torch.from_numpy(band)


class Essays(Dataset):
    def __init__(self, count=6400, length=64, seed=11):
        self.tokens, self.band = make_essays(count, length, seed)

    def __len__(self):
        return len(self.band)

    def __getitem__(self, i):
        return self.tokens[i], self.band[i], i


class EssayScorer(L.LightningModule):
    def __init__(self, dim=64, heads=4, layers=2, length=64, lr=6e-4, warmup=40, total=400):
        super().__init__()
        self.save_hyperparameters()
        self.embed = nn.Embedding(VOCAB, dim)
        self.position = nn.Parameter(torch.randn(1, length, dim) * 0.02)
        block = nn.TransformerEncoderLayer(dim, heads, 2 * dim, dropout=0.1, batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(block, layers, enable_nested_tensor=False)
        self.head = nn.Sequential(nn.LayerNorm(dim), nn.Linear(dim, BANDS))

    def forward(self, tokens):
        hidden = self.encoder(self.embed(tokens) + self.position)
        return self.head(hidden.mean(1))

    def training_step(self, batch, batch_idx):
        tokens, band, index = batch
        logits = self(tokens)
        loss = F.cross_entropy(logits, band, label_smoothing=0.05)
        self.log("train_loss", loss, prog_bar=False)
        return {"loss": loss, "logits": logits.detach(), "band": band, "index": index}

    def validation_step(self, batch, batch_idx):
        tokens, band, _ = batch
        logits = self(tokens)
        self.log("val_loss", F.cross_entropy(logits, band))
        self.log("val_acc", (logits.argmax(1) == band).float().mean())

    def configure_optimizers(self):
        opt = torch.optim.AdamW(self.parameters(), lr=self.hparams.lr, weight_decay=0.01)

        def scale(step):
            if step < self.hparams.warmup:
                return (step + 1) / self.hparams.warmup
            done = (step - self.hparams.warmup) / max(1, self.hparams.total - self.hparams.warmup)
            return 0.5 * (1 + math.cos(math.pi * min(1.0, done)))

        return {"optimizer": opt, "lr_scheduler": {"scheduler": torch.optim.lr_scheduler.LambdaLR(opt, scale), "interval": "step"}}


class TrainingDynamics(L.Callback):
    """One row for each essay seen: what the model thought of it at this step."""

    COLUMNS = ["epoch", "step", "guid", "gold", "gold_prob", "margin", "correct"]

    def __init__(self, path):
        self.path = path
        self.started = False

    def on_train_batch_end(self, trainer, pl_module, outputs, batch, batch_idx):
        prob = outputs["logits"].softmax(-1)
        gold = prob.gather(1, outputs["band"][:, None]).squeeze(1)
        top2 = prob.topk(2, dim=-1).values
        rows = zip(outputs["index"].tolist(), outputs["band"].tolist(), gold.tolist(), (top2[:, 0] - top2[:, 1]).tolist(),
                   (prob.argmax(-1) == outputs["band"]).tolist())
        records = [
            (trainer.current_epoch, trainer.global_step, guid, label, round(p, 5), round(margin, 5), int(correct))
            for guid, label, p, margin, correct in rows
        ]
        frame = pd.DataFrame(records, columns=self.COLUMNS)
        frame.to_csv(self.path, index=False, header=not self.started, mode="a" if self.started else "w")
        self.started = True

    def on_train_end(self, trainer, pl_module):
        frame = pd.read_csv(self.path)
        by_essay = frame.groupby("guid").gold_prob.agg(["mean", "std"])
        print(f"confidence {by_essay['mean'].mean():.3f}, variability {by_essay['std'].mean():.3f}, rows {len(frame)}")


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--out", default="runs/essays")
    p.add_argument("--batch-size", type=int, default=64)
    p.add_argument("--max-steps", type=int, default=600)
    args = p.parse_args()
    os.makedirs(args.out, exist_ok=True)
    L.seed_everything(5, verbose=False)

    data = Essays()
    train, val = random_split(data, [len(data) - 640, 640], generator=torch.Generator().manual_seed(0))
    train_loader = DataLoader(train, batch_size=args.batch_size, shuffle=True, drop_last=True)
    val_loader = DataLoader(val, batch_size=128)

    trainer = L.Trainer(
        max_steps=args.max_steps,
        accelerator="cpu",
        devices=1,
        logger=L.pytorch.loggers.CSVLogger(args.out, name="log"),
        log_every_n_steps=20,
        gradient_clip_val=1.0,
        enable_progress_bar=False,
        enable_model_summary=False,
        callbacks=[
            TrainingDynamics(os.path.join(args.out, "training_dynamics.csv")),
            L.pytorch.callbacks.ModelCheckpoint(dirpath=args.out, filename="best", monitor="val_loss", save_top_k=1),
        ],
    )
    trainer.fit(EssayScorer(total=args.max_steps), train_loader, val_loader)
    print({k: round(float(v), 4) for k, v in trainer.callback_metrics.items()})


if __name__ == "__main__":
    main()
