#!/usr/bin/env python
"""Nightly job: retrain the customer model (churn, 90-day spend, next category).

Reads the feature snapshot (here: generated, same schema as the warehouse
table), fits one shared trunk with three heads and writes model + run report
to the job directory. Called by the scheduler as ``python train.py``; the flags
below exist for backfills and local debugging.
"""
from __future__ import annotations

import argparse
import json
import logging
import math
import os
import socket
import sys
import time
from dataclasses import asdict, dataclass, field
from datetime import datetime, timezone

import numpy as np
import pandas as pd
import psutil
import torch
import torch.nn.functional as F
from sklearn.metrics import roc_auc_score
from torch import nn

log = logging.getLogger("customer_model")

CATEGORIES = ["grocery", "fashion", "electronics", "home", "beauty", "sports", "toys", "media"]
REGIONS = ["north", "south", "east", "west", "central", "islands"]
CHANNELS = ["web", "app", "store", "partner"]
NUMERIC = [
    "tenure_days", "orders_30d", "orders_90d", "orders_365d", "spend_30d", "spend_90d",
    "spend_365d", "avg_basket", "returns_365d", "tickets_90d", "sessions_30d", "emails_opened",
    "emails_sent", "discount_share", "days_since_order", "age",
]
CATEGORICAL = {"region": REGIONS, "channel": CHANNELS, "last_category": CATEGORIES}


@dataclass
class JobConfig:
    customers: int = 60_000
    epochs: int = 14
    batch_size: int = 256
    hidden: int = 128
    blocks: int = 2
    emb_dim: int = 8
    dropout: float = 0.1
    lr: float = 1.5e-3
    weight_decay: float = 1e-4
    warmup: int = 150
    valid_share: float = 0.15
    patience: int = 12
    seed: int = 20240611
    job_dir: str = "runs/customer_model"
    tags: dict = field(default_factory=lambda: {"team": "crm-ml", "stage": "nightly"})


# ------------------------------------------------------------------ telemetry
class EventLog:
    """Structured events, one JSON object per line, picked up by the log shipper.

    Every event carries the job identity, the place in the code that emitted it
    and the memory of the process (the shared nodes have been out of it before),
    so that dashboards can be filtered without knowing event names.
    """

    def __init__(self, path: str, **base):
        self.base = {"host": socket.gethostname(), "pid": os.getpid(), **base}
        self._process = psutil.Process()
        self._file = open(path, "w", encoding="utf-8", buffering=1 << 16)
        self._seq = 0

    def emit(self, event: str, **fields):
        caller = sys._getframe(1)
        memory = self._process.memory_info().rss
        self._seq += 1
        record = {
            "seq": self._seq,
            "ts": datetime.now(timezone.utc).isoformat(timespec="milliseconds"),
            "event": event,
            "source": f"{os.path.basename(caller.f_code.co_filename)}:{caller.f_lineno}",
            "mem_mb": memory >> 20,
            **self.base,
            **fields,
        }
        self._file.write(json.dumps(record) + "\n")

    def close(self):
        self._file.close()


# ----------------------------------------------------------------------- data
def load_snapshot(n: int, seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    activity = rng.gamma(2.0, 1.0, n)
    loyalty = rng.beta(2.5, 2.0, n)
    taste = rng.integers(0, len(CATEGORIES), n)
    df = pd.DataFrame({
        "customer_id": np.arange(n) + 1_000_000,
        "tenure_days": rng.integers(5, 3000, n) * (0.4 + 0.6 * loyalty),
        "orders_30d": rng.poisson(activity),
        "orders_90d": rng.poisson(activity * 3),
        "orders_365d": rng.poisson(activity * 11),
        "avg_basket": rng.lognormal(3.3, 0.5, n),
        "returns_365d": rng.poisson(0.6 + 0.5 * (1 - loyalty)),
        "tickets_90d": rng.poisson(0.3 + 0.9 * (1 - loyalty)),
        "sessions_30d": rng.poisson(activity * 4),
        "emails_sent": rng.integers(2, 40, n),
        "discount_share": rng.beta(2, 5, n),
        "days_since_order": rng.exponential(30 / (0.3 + activity)),
        "age": rng.normal(43, 14, n).clip(18, 92),
        "region": rng.choice(REGIONS, n),
        "channel": rng.choice(CHANNELS, n, p=[0.4, 0.35, 0.2, 0.05]),
    })
    df["emails_opened"] = rng.binomial(df["emails_sent"], 0.15 + 0.6 * loyalty)
    for window in ("30d", "90d", "365d"):
        df[f"spend_{window}"] = df[f"orders_{window}"] * df["avg_basket"] * rng.lognormal(0, 0.2, n)
    keep = rng.random(n) < 0.7
    df["last_category"] = np.array(CATEGORIES)[np.where(keep, taste, rng.integers(0, 8, n))]

    logit = (1.2 - 3.2 * loyalty + 0.03 * df["days_since_order"] + 0.35 * df["tickets_90d"]
             - 0.25 * activity)
    df["y_churn"] = (rng.random(n) < 1 / (1 + np.exp(-logit))).astype(np.int64)
    spend = activity * 3 * df["avg_basket"] * (1 - 0.8 * df["y_churn"]) * rng.lognormal(0, 0.35, n)
    df["y_spend"] = np.log1p(spend)
    stay = rng.random(n) < 0.55
    df["y_category"] = np.where(stay, taste, rng.integers(0, len(CATEGORIES), n))
    df.loc[df.sample(frac=0.04, random_state=seed).index, "age"] = np.nan
    return df


def build_tensors(df: pd.DataFrame, train_mask: np.ndarray) -> dict[str, torch.Tensor]:
    num = df[NUMERIC].astype("float64")
    num = num.fillna(num[train_mask].median())
    skewed = [c for c in NUMERIC if c.startswith(("orders", "spend", "avg", "days", "sessions"))]
    num[skewed] = np.log1p(num[skewed])
    num = (num - num[train_mask].mean()) / (num[train_mask].std() + 1e-6)
    codes = [pd.Categorical(df[c], categories=levels).codes for c, levels in CATEGORICAL.items()]
    return {
        "num": torch.tensor(num.to_numpy(), dtype=torch.float32),
        "cat": torch.tensor(np.stack(codes, axis=1), dtype=torch.long),
        "churn": torch.tensor(df["y_churn"].to_numpy(), dtype=torch.float32),
        "spend": torch.tensor(df["y_spend"].to_numpy(), dtype=torch.float32),
        "category": torch.tensor(df["y_category"].to_numpy(), dtype=torch.long),
    }


class Table:
    """Column tensors with shuffled mini-batches."""

    def __init__(self, columns: dict[str, torch.Tensor], batch_size: int, seed: int = 0):
        self.columns = columns
        self.batch_size = batch_size
        self.rows = len(next(iter(columns.values())))
        self.gen = torch.Generator().manual_seed(seed)

    def __len__(self):
        return self.rows // self.batch_size

    def shuffled(self):
        order = torch.randperm(self.rows, generator=self.gen)
        for i in range(len(self)):
            idx = order[i * self.batch_size:(i + 1) * self.batch_size]
            yield {k: v[idx] for k, v in self.columns.items()}

    def chunks(self, size: int = 4096):
        for i in range(0, self.rows, size):
            yield {k: v[i:i + size] for k, v in self.columns.items()}


# ---------------------------------------------------------------------- model
class ResidualBlock(nn.Module):
    def __init__(self, width: int, dropout: float):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.fc1 = nn.Linear(width, width * 2)
        self.fc2 = nn.Linear(width * 2, width)
        self.drop = nn.Dropout(dropout)

    def forward(self, x):
        return x + self.fc2(self.drop(F.gelu(self.fc1(self.norm(x)))))


class CustomerModel(nn.Module):
    def __init__(self, cfg: JobConfig):
        super().__init__()
        self.embeddings = nn.ModuleList(
            nn.Embedding(len(levels), cfg.emb_dim) for levels in CATEGORICAL.values())
        width = len(NUMERIC) + cfg.emb_dim * len(CATEGORICAL)
        self.stem = nn.Linear(width, cfg.hidden)
        self.trunk = nn.Sequential(*[ResidualBlock(cfg.hidden, cfg.dropout)
                                     for _ in range(cfg.blocks)])
        self.head_churn = nn.Linear(cfg.hidden, 1)
        self.head_spend = nn.Linear(cfg.hidden, 1)
        self.head_category = nn.Linear(cfg.hidden, len(CATEGORIES))
        self.log_var = nn.Parameter(torch.zeros(3))

    def forward(self, num, cat):
        emb = [e(cat[:, i]) for i, e in enumerate(self.embeddings)]
        h = self.trunk(self.stem(torch.cat([num, *emb], dim=1)))
        return self.head_churn(h).squeeze(1), self.head_spend(h).squeeze(1), self.head_category(h)

    def losses(self, batch):
        churn, spend, category = self(batch["num"], batch["cat"])
        return torch.stack([
            F.binary_cross_entropy_with_logits(churn, batch["churn"]),
            F.smooth_l1_loss(spend, batch["spend"]),
            F.cross_entropy(category, batch["category"]),
        ])

    def total(self, losses):
        """Homoscedastic uncertainty weighting."""
        return (torch.exp(-self.log_var) * losses + self.log_var).sum()


# -------------------------------------------------------------------- trainer
class Trainer:
    def __init__(self, cfg: JobConfig, model: CustomerModel, train: Table, valid: Table,
                 events: EventLog):
        self.cfg, self.model, self.train, self.valid, self.events = cfg, model, train, valid, events
        self.opt = torch.optim.AdamW(model.parameters(), lr=cfg.lr, weight_decay=cfg.weight_decay)
        self.total_steps = cfg.epochs * len(train)
        self.sched = torch.optim.lr_scheduler.LambdaLR(self.opt, self._lr_factor)
        self.step = 0
        self.best = {"score": -math.inf, "epoch": -1}

    def _lr_factor(self, step):
        if step < self.cfg.warmup:
            return (step + 1) / self.cfg.warmup
        done = (step - self.cfg.warmup) / max(1, self.total_steps - self.cfg.warmup)
        return 0.5 * (1 + math.cos(math.pi * min(1.0, done)))

    def train_step(self, batch):
        losses = self.model.losses(batch)
        total = self.model.total(losses)
        self.opt.zero_grad(set_to_none=True)
        total.backward()
        norm = nn.utils.clip_grad_norm_(self.model.parameters(), 5.0)
        self.opt.step()
        self.sched.step()
        self.step += 1
        churn, spend, category = losses.tolist()
        self.events.emit("train.step", step=self.step, loss=total.item(), churn=churn, spend=spend,
                         category=category, grad_norm=norm.item(), lr=self.sched.get_last_lr()[0])
        return total.item()

    def train_epoch(self, epoch):
        self.model.train()
        running = 0.0
        for batch in self.train.shuffled():
            running += self.train_step(batch)
        return running / len(self.train)

    @torch.inference_mode()
    def evaluate(self):
        self.model.eval()
        outs = [self.model(b["num"], b["cat"]) for b in self.valid.chunks()]
        churn, spend, category = (torch.cat(parts) for parts in zip(*outs))
        cols = self.valid.columns
        return {
            "churn_auc": float(roc_auc_score(cols["churn"].numpy(), churn.numpy())),
            "spend_mae": (spend - cols["spend"]).abs().mean().item(),
            "category_acc": (category.argmax(1) == cols["category"]).float().mean().item(),
        }

    def fit(self):
        bad = 0
        for epoch in range(self.cfg.epochs):
            tic = time.perf_counter()
            loss = self.train_epoch(epoch)
            metrics = self.evaluate()
            secs = time.perf_counter() - tic
            self.events.emit("epoch.end", epoch=epoch, loss=loss, seconds=secs, **metrics)
            log.info("epoch %02d loss %.4f | auc %.4f mae %.4f acc %.4f | %.1fs", epoch, loss,
                     metrics["churn_auc"], metrics["spend_mae"], metrics["category_acc"], secs)
            score = metrics["churn_auc"] + metrics["category_acc"] - metrics["spend_mae"]
            if score > self.best["score"]:
                self.best = {"score": score, "epoch": epoch, **metrics}
                torch.save(self.model.state_dict(), os.path.join(self.cfg.job_dir, "model.pt"))
                bad = 0
            else:
                bad += 1
                if bad >= self.cfg.patience:
                    log.info("no improvement for %d epochs, stopping", bad)
                    break
        return self.best


# ----------------------------------------------------------------------- main
def parse_config(argv=None) -> JobConfig:
    cfg = JobConfig()
    ap = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name, value in asdict(cfg).items():
        if not isinstance(value, dict):
            ap.add_argument(f"--{name.replace('_', '-')}", type=type(value), default=value)
    for name, value in vars(ap.parse_args(argv)).items():
        setattr(cfg, name, value)
    return cfg


def main(argv=None) -> int:
    logging.basicConfig(level=logging.INFO, stream=sys.stdout,
                        format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    cfg = parse_config(argv)
    os.makedirs(cfg.job_dir, exist_ok=True)
    torch.manual_seed(cfg.seed)
    np.random.seed(cfg.seed % 2**32)

    df = load_snapshot(cfg.customers, cfg.seed)
    is_train = np.random.default_rng(cfg.seed + 1).random(len(df)) >= cfg.valid_share
    columns = build_tensors(df, is_train)
    mask = torch.from_numpy(is_train)
    train = Table({k: v[mask] for k, v in columns.items()}, cfg.batch_size, cfg.seed)
    valid = Table({k: v[~mask] for k, v in columns.items()}, cfg.batch_size)
    log.info("snapshot: %d customers, churn rate %.3f, %d/%d train/valid", len(df),
             df["y_churn"].mean(), train.rows, valid.rows)

    events = EventLog(os.path.join(cfg.job_dir, "events.jsonl"), **cfg.tags)
    events.emit("job.start", config={k: v for k, v in asdict(cfg).items() if k != "tags"})
    trainer = Trainer(cfg, CustomerModel(cfg), train, valid, events)
    best = trainer.fit()
    events.emit("job.end", **best)
    events.close()
    with open(os.path.join(cfg.job_dir, "report.json"), "w") as f:
        json.dump({"config": asdict(cfg), "best": best, "steps": trainer.step}, f, indent=2)
    log.info("best epoch %d: %s", best["epoch"], best)
    return 0


if __name__ == "__main__":
    sys.exit(main())
