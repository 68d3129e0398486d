"""Chargeback risk model on card transactions, trained with Accelerate."""
import math
import time

import numpy as np
import torch
import torch.nn as nn
from accelerate import Accelerator
from accelerate.utils import set_seed
from torchmetrics import MetricCollection
from torchmetrics.classification import BinaryAUROC, BinaryAveragePrecision, BinaryF1Score

CONFIG = dict(rows=64_000, n_num=32, cardinalities=(500, 60, 24, 12, 7), batch_size=256, epochs=4,
              width=192, depth=3, dropout=0.1, lr=2e-3, seed=17)


def make_transactions(cfg):
    rng = np.random.default_rng(cfg["seed"])
    num = rng.normal(size=(cfg["rows"], cfg["n_num"])).astype(np.float32)
    cat = np.stack([rng.integers(0, c, cfg["rows"]) for c in cfg["cardinalities"]], axis=1)
    risk = [rng.normal(0, 0.7, c) for c in cfg["cardinalities"]]
    logit = num[:, :6] @ rng.normal(0, 0.6, 6) + num[:, 6] * num[:, 7] - 2.5
    logit += sum(r[cat[:, j]] for j, r in enumerate(risk))
    y = (rng.random(cfg["rows"]) < 1 / (1 + np.exp(-logit))).astype(np.float32)
    return torch.from_numpy(num), torch.from_numpy(cat), torch.from_numpy(y)


class Batches:
    def __init__(self, tensors, batch_size, shuffle):
        self.tensors, self.batch_size, self.shuffle = tensors, batch_size, shuffle

    def __len__(self):
        return len(self.tensors[0]) // self.batch_size

    def __iter__(self):
        n = len(self.tensors[0])
        order = torch.randperm(n) if self.shuffle else torch.arange(n)
        for idx in order[:len(self) * self.batch_size].view(-1, self.batch_size):
            yield tuple(t[idx] for t in self.tensors)


class ResidualMLP(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.embeds = nn.ModuleList(
            nn.Embedding(c, min(32, math.ceil(c ** 0.5))) for c in cfg["cardinalities"])
        d_in = cfg["n_num"] + sum(e.embedding_dim for e in self.embeds)
        self.inp = nn.Linear(d_in, cfg["width"])
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.BatchNorm1d(cfg["width"]), nn.Linear(cfg["width"], cfg["width"] * 2),
                          nn.ReLU(), nn.Dropout(cfg["dropout"]),
                          nn.Linear(cfg["width"] * 2, cfg["width"]))
            for _ in range(cfg["depth"]))
        self.out = nn.Linear(cfg["width"], 1)

    def forward(self, num, cat):
        x = torch.cat([num] + [e(cat[:, j]) for j, e in enumerate(self.embeds)], dim=1)
        x = self.inp(x)
        for block in self.blocks:
            x = x + block(x)
        return self.out(x).squeeze(1)


def main():
    cfg = CONFIG
    set_seed(cfg["seed"])
    accelerator = Accelerator(cpu=True)
    num, cat, y = make_transactions(cfg)
    train_batches = Batches((num, cat, y), cfg["batch_size"], shuffle=True)
    model = ResidualMLP(cfg)
    optimizer = torch.optim.AdamW(model.parameters(), lr=cfg["lr"], weight_decay=1e-2, fused=True)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, cfg["lr"], total_steps=cfg["epochs"] * len(train_batches))
    model, optimizer, scheduler = accelerator.prepare(model, optimizer, scheduler)
    criterion = nn.BCEWithLogitsLoss(pos_weight=torch.tensor(3.0))
    metrics = MetricCollection({"auroc": BinaryAUROC(), "ap": BinaryAveragePrecision(),
                                "f1": BinaryF1Score()})

    for epoch in range(cfg["epochs"]):
        model.train()
        metrics.reset()
        start = time.time()
        for step, (b_num, b_cat, b_y) in enumerate(train_batches):
            logits = model(b_num, b_cat)
            loss = criterion(logits, b_y)
            accelerator.backward(loss)
            accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()

            metrics.update(logits.detach().sigmoid(), b_y.long())
            if step % 50 == 0:
                scores = metrics.compute()
                accelerator.print(f"epoch {epoch} step {step:3d} loss {loss.item():.4f} "
                                  f"auroc {scores['auroc']:.3f} ap {scores['ap']:.3f}", flush=True)
        scores = metrics.compute()
        accelerator.print(f"epoch {epoch} done: f1 {scores['f1']:.3f} in {time.time() - start:.1f}s", flush=True)


if __name__ == "__main__":
    main()
