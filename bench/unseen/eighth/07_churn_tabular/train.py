"""Churn prediction on a synthetic customer table: embeddings for categories + an MLP."""
import json
import logging
import os
import sys
import tempfile
import time

import numpy as np
import pandas as pd
import torch
import torch.nn as nn
from sklearn.metrics import average_precision_score, roc_auc_score

logging.basicConfig(stream=sys.stdout, level=logging.INFO, format="%(levelname)s %(message)s")
log = logging.getLogger("churn")

config = dict(rows=80_000, batch=512, epochs=2, lr=1.5e-3, hidden=512, seed=5, log_every=20)
CATEGORICAL = {"plan": 6, "region": 40, "device": 120, "channel": 9}
NUMERIC = ["tenure", "monthly", "calls", "complaints", "data_gb", "roaming", "late_days", "age"]


def make_csv(path, rows, seed):
    rng = np.random.default_rng(seed)
    table = {name: rng.integers(0, n, rows) for name, n in CATEGORICAL.items()}
    for name in NUMERIC:
        table[name] = np.round(rng.gamma(2.0, 1.0, rows), 3)
    score = (0.8 * table["complaints"] - 0.5 * table["tenure"] + 0.6 * np.sin(table["region"])
             + 0.4 * (table["plan"] == 2) * table["monthly"] - 1.5)
    table["churned"] = (rng.random(rows) < 1 / (1 + np.exp(-score))).astype(int)
    pd.DataFrame(table).to_csv(path, index=False)


def load(path):
    frame = pd.read_csv(path)
    numeric = frame[NUMERIC].to_numpy(np.float32)
    numeric = (numeric - numeric.mean(0)) / numeric.std(0)
    cats = frame[list(CATEGORICAL)].to_numpy(np.int64)
    target = frame["churned"].to_numpy(np.float32)
    return tuple(torch.from_numpy(a) for a in (numeric, cats, target))


class ChurnNet(nn.Module):
    def __init__(self, hidden):
        super().__init__()
        self.embeddings = nn.ModuleList([nn.Embedding(n, min(16, n // 2)) for n in CATEGORICAL.values()])
        width = len(NUMERIC) + sum(e.embedding_dim for e in self.embeddings)
        self.mlp = nn.Sequential(
            nn.Linear(width, hidden), nn.BatchNorm1d(hidden), nn.GELU(), nn.Dropout(0.1),
            nn.Linear(hidden, hidden), nn.BatchNorm1d(hidden), nn.GELU(), nn.Dropout(0.1),
            nn.Linear(hidden, hidden), nn.GELU(), nn.Linear(hidden, 1))

    def forward(self, numeric, cats):
        parts = [emb(cats[:, i]) for i, emb in enumerate(self.embeddings)]
        return self.mlp(torch.cat([numeric, *parts], 1)).squeeze(1)


class Meter:
    """Ranking quality of everything seen since the last reset."""

    def __init__(self):
        self.reset()

    def reset(self):
        self.scores, self.labels = [], []

    def update(self, logits, labels):
        self.scores.append(torch.sigmoid(logits.detach()).numpy())
        self.labels.append(labels.numpy())

    def compute(self):
        scores, labels = np.concatenate(self.scores), np.concatenate(self.labels)
        return {"auc": roc_auc_score(labels, scores), "ap": average_precision_score(labels, scores)}


class Trainer:
    def __init__(self, cfg, tensors, workdir):
        self.cfg, self.workdir = cfg, workdir
        n_val = cfg["rows"] // 10
        self.val = [t[:n_val] for t in tensors]
        self.train = [t[n_val:] for t in tensors]
        self.model = ChurnNet(cfg["hidden"])
        self.opt = torch.optim.AdamW(self.model.parameters(), lr=cfg["lr"])
        self.loss = nn.BCEWithLogitsLoss()
        self.meter = Meter()

    def batches(self):
        order = torch.randperm(len(self.train[0]))
        for chunk in order.split(self.cfg["batch"]):
            yield [t[chunk] for t in self.train]

    def train_epoch(self, epoch):
        self.meter.reset()
        for i, (numeric, cats, target) in enumerate(self.batches()):
            logits = self.model(numeric, cats)
            loss = self.loss(logits, target)
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()
            self.meter.update(logits, target)
            quality = self.meter.compute()
            if i % self.cfg["log_every"] == 0:
                log.info("epoch %d batch %d loss %.4f auc %.4f ap %.4f", epoch, i, loss.item(),
                         quality["auc"], quality["ap"])

    @torch.no_grad()
    def validate(self):
        self.model.eval()
        meter = Meter()
        for numeric, cats, target in zip(*(t.split(4096) for t in self.val)):
            meter.update(self.model(numeric, cats), target)
        self.model.train()
        return meter.compute()

    def run(self):
        for epoch in range(self.cfg["epochs"]):
            start = time.time()
            self.train_epoch(epoch)
            result = self.validate()
            log.info("epoch %d validation %s (%.1f s)", epoch, json.dumps(result), time.time() - start)
            torch.save(self.model.state_dict(), os.path.join(self.workdir, f"epoch{epoch}.pt"))


if __name__ == "__main__":
    torch.manual_seed(config["seed"])
    with tempfile.TemporaryDirectory() as workdir:
        csv_path = os.path.join(workdir, "customers.csv")
        make_csv(csv_path, config["rows"], config["seed"])
        Trainer(config, load(csv_path), workdir).run()
