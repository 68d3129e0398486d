"""Click-through prediction on an ad log table: factorisation machine plus deep tower."""
import argparse
import json
import logging
import tempfile
import time
from pathlib import Path

import numpy as np
import pandas as pd
import torch
import torch.nn as nn
import torch.nn.functional as F
from sklearn.metrics import log_loss, roc_auc_score
from torch.utils.data import BatchSampler, DataLoader, Dataset, RandomSampler, SequentialSampler

logger = logging.getLogger("ctr")


def make_table(path, rows, n_cat, n_num, cardinality, seed):
    rng = np.random.default_rng(seed)
    table, score = {}, np.zeros(rows)
    for c in range(n_cat):
        codes = (rng.beta(0.6, 2.0, rows) * cardinality).astype(np.int64)
        table[f"C{c}"] = codes
        score += np.random.default_rng(100 + c).normal(0, 0.35, cardinality)[codes]
    for k in range(n_num):
        v = rng.lognormal(0, 1, rows)
        table[f"I{k}"] = v.astype(np.float32)
        score += 0.1 * np.log1p(v) * (-1) ** k
    table["click"] = (rng.random(rows) < 1 / (1 + np.exp(-(score - 1.2)))).astype(np.float32)
    pd.DataFrame(table).to_parquet(path)


class ClickTable(Dataset):
    """Whole table in memory as tensors; an index is a list of rows (one batch)."""

    def __init__(self, path):
        df = pd.read_parquet(path)
        cats = sorted(c for c in df.columns if c.startswith("C"))
        nums = sorted(c for c in df.columns if c.startswith("I"))
        self.cat = torch.from_numpy(df[cats].to_numpy(np.int64, copy=True))
        self.num = torch.from_numpy(np.log1p(df[nums].to_numpy(np.float32, copy=True)))
        self.y = torch.from_numpy(df["click"].to_numpy(np.float32, copy=True))

    def __len__(self):
        return len(self.y)

    def __getitem__(self, rows):
        rows = torch.as_tensor(rows)
        return self.cat[rows], self.num[rows], self.y[rows]


def batches(dataset, size, shuffle, generator=None):
    order = RandomSampler(dataset, generator=generator) if shuffle else SequentialSampler(dataset)
    return DataLoader(dataset, sampler=BatchSampler(order, size, drop_last=shuffle), batch_size=None)


class DeepFM(nn.Module):
    def __init__(self, n_cat, n_num, cardinality, dim=16, hidden=(512, 256), dropout=0.1):
        super().__init__()
        self.register_buffer("offsets", torch.arange(n_cat) * cardinality)
        self.embed = nn.Embedding(n_cat * cardinality, dim)
        self.linear = nn.Embedding(n_cat * cardinality, 1)
        nn.init.normal_(self.embed.weight, std=0.01)
        nn.init.zeros_(self.linear.weight)
        layers, width = [], n_cat * dim + n_num
        for h in hidden:
            layers += [nn.Linear(width, h), nn.ReLU(), nn.Dropout(dropout)]
            width = h
        self.deep = nn.Sequential(*layers, nn.Linear(width, 1))
        self.bias = nn.Parameter(torch.zeros(1))

    def forward(self, cat, num):
        idx = cat + self.offsets
        e = self.embed(idx)
        fm = 0.5 * (e.sum(1).pow(2) - e.pow(2).sum(1)).sum(1)
        first = self.linear(idx).sum((1, 2))
        deep = self.deep(torch.cat([e.flatten(1), num], 1)).squeeze(1)
        return self.bias + first + fm + deep


class Meter:
    """Loss and AUC of the running epoch."""

    def __init__(self):
        self.losses, self.scores, self.targets = [], [], []

    def update(self, loss, logits, y):
        self.losses.append(loss.item())
        self.scores.append(logits.detach().sigmoid().numpy())
        self.targets.append(y.numpy())

    def summary(self):
        y = np.concatenate(self.targets)
        s = np.concatenate(self.scores)
        return {"loss": float(np.mean(self.losses)), "auc": float(roc_auc_score(y, s))}


@torch.no_grad()
def evaluate(model, loader):
    model.eval()
    scores, targets = [], []
    for cat, num, y in loader:
        scores.append(model(cat, num).sigmoid())
        targets.append(y)
    model.train()
    s, y = torch.cat(scores).double().numpy(), torch.cat(targets).numpy()
    return {"auc": roc_auc_score(y, s), "logloss": log_loss(y, s)}


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--rows", type=int, default=163840)
    p.add_argument("--val-rows", type=int, default=16384)
    p.add_argument("--epochs", type=int, default=3)
    p.add_argument("--batch-size", type=int, default=512)
    p.add_argument("--cats", type=int, default=20)
    p.add_argument("--nums", type=int, default=8)
    p.add_argument("--cardinality", type=int, default=200)
    p.add_argument("--lr", type=float, default=1e-3)
    p.add_argument("--log-every", type=int, default=40)
    args = p.parse_args()
    logging.basicConfig(level=logging.INFO, format="[%(asctime)s] %(message)s")
    torch.manual_seed(3)

    with tempfile.TemporaryDirectory() as tmp:
        root = Path(tmp)
        make_table(root / "train.parquet", args.rows, args.cats, args.nums, args.cardinality, seed=0)
        make_table(root / "val.parquet", args.val_rows, args.cats, args.nums, args.cardinality, seed=1)
        gen = torch.Generator().manual_seed(5)
        train = batches(ClickTable(root / "train.parquet"), args.batch_size, True, gen)
        val = batches(ClickTable(root / "val.parquet"), 4096, False)

        model = DeepFM(args.cats, args.nums, args.cardinality)
        opt = torch.optim.Adam(model.parameters(), lr=args.lr)
        history, best, spent, step = [], 0.0, 0.0, 0
        for epoch in range(args.epochs):
            meter, start = Meter(), time.perf_counter()
            for i, (cat, num, y) in enumerate(train, 1):
                logits = model(cat, num)
                loss = F.binary_cross_entropy_with_logits(logits, y)
                opt.zero_grad(set_to_none=True)
                loss.backward()
                opt.step()
                step += 1
                meter.update(loss, logits, y)
                if i % args.log_every == 0:
                    stats = meter.summary()
                    logger.info("epoch %d %d/%d loss %.4f auc %.4f", epoch, i, len(train),
                                stats["loss"], stats["auc"])
            spent += time.perf_counter() - start
            result = evaluate(model, val)
            history.append({"epoch": epoch, "train": stats, "val": result})
            logger.info("epoch %d train auc %.4f val auc %.4f logloss %.4f", epoch, stats["auc"],
                        result["auc"], result["logloss"])
            if result["auc"] > best:
                best = result["auc"]
                torch.save(model.state_dict(), root / "best.pt")
        (root / "history.json").write_text(json.dumps(history))
        logger.info("finished %d steps, %.2f ms/step", step, 1000 * spent / step)


if __name__ == "__main__":
    main()
