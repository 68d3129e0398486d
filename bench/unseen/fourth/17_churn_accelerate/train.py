"""Customer churn model on a mixed table (numbers and categories), trained with accelerate."""
import argparse
import json
import os
import tempfile
import time

import numpy as np
import pandas as pd
import torch
import torch.nn as nn
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch.utils.data import DataLoader, Dataset

NUMERIC = [
    "tenure", "monthly", "total", "calls", "minutes", "data_gb",
    "complaints", "age", "late_payments", "discount", "logins", "last_visit",
]
CATEGORICAL = {"plan": 12, "region": 30, "device": 60, "channel": 8, "payment": 5}


def make_customers(n, seed):
    rng = np.random.default_rng(seed)
    df = pd.DataFrame({c: rng.gamma(2.0, 1.0 + i, size=n) for i, c in enumerate(NUMERIC)})
    for c, size in CATEGORICAL.items():
        df[c] = rng.integers(0, size, size=n)
    score = (
        0.25 * df["complaints"] - 0.5 * df["tenure"] + 0.12 * df["late_payments"]
        + 0.3 * (df["plan"] % 3) - 0.4 * (df["payment"] == 2) + rng.normal(0, 0.7, n)
    )
    df["churn"] = (score > score.median()).astype(int)
    # standardise
    df[NUMERIC] = (df[NUMERIC] - df[NUMERIC].mean()) / df[NUMERIC].std()
    return df


class CustomerDataset(Dataset):
    def __init__(self, df):
        self.df = df.reset_index(drop=True)

    def __len__(self):
        return len(self.df)

    def __getitem__(self, idx):
        row = self.df.iloc[idx]
        num = torch.tensor(row[NUMERIC].to_numpy(dtype=np.float32))
        cat = torch.tensor(row[list(CATEGORICAL)].to_numpy(dtype=np.int64))
        return num, cat, torch.tensor(float(row["churn"]))


class TabularNet(nn.Module):
    def __init__(self, width=128, dim=8):
        super().__init__()
        self.embs = nn.ModuleList(nn.Embedding(size, dim) for size in CATEGORICAL.values())
        self.net = nn.Sequential(
            nn.Linear(len(NUMERIC) + dim * len(CATEGORICAL), width), nn.ReLU(), nn.BatchNorm1d(width),
            nn.Linear(width, width), nn.ReLU(), nn.BatchNorm1d(width), nn.Dropout(0.1),
            nn.Linear(width, 1),
        )

    def forward(self, num, cat):
        parts = [num] + [emb(cat[:, j]) for j, emb in enumerate(self.embs)]
        return self.net(torch.cat(parts, dim=1)).squeeze(1)


def evaluate(model, loader, loss_fn, accelerator):
    model.eval()
    loss, hits, n = 0.0, 0, 0
    with torch.no_grad():
        for num, cat, y in loader:
            logits = model(num, cat)
            logits, y = accelerator.gather_for_metrics((logits, y))
            loss += loss_fn(logits, y).item() * len(y)
            hits += ((logits > 0) == (y > 0.5)).sum().item()
            n += len(y)
    return loss / n, hits / n


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--rows", type=int, default=12000)
    p.add_argument("--epochs", type=int, default=4)
    p.add_argument("--batch", type=int, default=32)
    p.add_argument("--lr", type=float, default=2e-3)
    args = p.parse_args()

    set_seed(17)
    accelerator = Accelerator(cpu=True)
    df = make_customers(args.rows, seed=17)
    cut = int(len(df) * 0.95)
    train_loader = DataLoader(CustomerDataset(df[:cut]), batch_size=args.batch, shuffle=True, drop_last=True)
    valid_loader = DataLoader(CustomerDataset(df[cut:]), batch_size=256)

    model = TabularNet()
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)
    scheduler = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, args.epochs * len(train_loader))
    model, optimizer, train_loader, valid_loader, scheduler = accelerator.prepare(
        model, optimizer, train_loader, valid_loader, scheduler
    )
    loss_fn = nn.BCEWithLogitsLoss()

    with tempfile.TemporaryDirectory() as run_dir:
        history = []
        step, t0 = 0, time.time()
        for epoch in range(args.epochs):
            model.train()
            for num, cat, y in train_loader:
                logits = model(num, cat)
                loss = loss_fn(logits, y)
                accelerator.backward(loss)
                grad_norm = accelerator.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                scheduler.step()
                optimizer.zero_grad()
                step += 1

                record = {
                    "step": step,
                    "epoch": epoch,
                    "samples": step * args.batch,
                    "loss": loss.item(),
                    "accuracy": ((logits > 0) == (y > 0.5)).float().mean().item(),
                    "positive_rate": y.mean().item(),
                    "grad_norm": grad_norm.item(),
                    "lr": scheduler.get_last_lr()[0],
                    "logit_mean": logits.mean().item(),
                    "logit_std": logits.std().item(),
                    "elapsed": time.time() - t0,
                }
                history.append(record)
                with open(os.path.join(run_dir, "history.json"), "w") as f:
                    json.dump(history, f, indent=2)

            val_loss, val_acc = evaluate(model, valid_loader, loss_fn, accelerator)
            train_loss = np.mean([r["loss"] for r in history if r["epoch"] == epoch])
            accelerator.print(
                f"epoch {epoch}: train {train_loss:.4f}  valid {val_loss:.4f}  acc {val_acc:.3f}  "
                f"{step / (time.time() - t0):.1f} steps/s"
            )
        accelerator.print("history:", os.path.getsize(os.path.join(run_dir, "history.json")) // 1024, "kB")


if __name__ == "__main__":
    main()
