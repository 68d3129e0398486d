"""Click-through model with sparse categorical features, separate optimizers for tables and network.

    python train.py --steps 1500
"""
import argparse
import json
import time

import numpy as np
import torch
import torch.nn as nn
from sklearn.metrics import roc_auc_score
from torch.utils.data import DataLoader, IterableDataset

CARDINALITIES = [60000, 40000, 20000, 8000, 2000, 500, 100, 24]


class ClickStream(IterableDataset):
    """Synthetic impressions in time order, yielded as ready-made batches."""

    def __init__(self, batches, batch_size, seed, stream_seed):
        self.batches, self.batch_size = batches, batch_size
        self.stream_seed = stream_seed
        rng = np.random.default_rng(seed)
        self.effects = [rng.normal(0, 0.5, n).astype(np.float32) for n in CARDINALITIES]
        self.weights = rng.normal(0, 0.4, 13).astype(np.float32)

    def __len__(self):
        return self.batches

    def __iter__(self):
        rng = np.random.default_rng(self.stream_seed)
        for _ in range(self.batches):
            cats = np.stack([(n * rng.random(self.batch_size) ** 3).astype(np.int64)
                             for n in CARDINALITIES], axis=1)
            dense = rng.standard_normal((self.batch_size, 13), dtype=np.float32)
            logit = dense @ self.weights - 1.5
            for k, effect in enumerate(self.effects):
                logit += effect[cats[:, k]]
            label = (rng.random(self.batch_size) < 1 / (1 + np.exp(-logit))).astype(np.float32)
            yield torch.from_numpy(cats), torch.from_numpy(dense), torch.from_numpy(label)


class CrossLayer(nn.Module):
    def __init__(self, dim):
        super().__init__()
        self.w = nn.Linear(dim, dim)

    def forward(self, x0, x):
        return x0 * self.w(x) + x


class ClickNet(nn.Module):
    def __init__(self, dim, hidden, cross):
        super().__init__()
        self.tables = nn.ModuleList(nn.Embedding(n, dim, sparse=True) for n in CARDINALITIES)
        for table in self.tables:
            nn.init.normal_(table.weight, std=0.02)
        width = dim * len(CARDINALITIES) + 13
        self.cross = nn.ModuleList(CrossLayer(width) for _ in range(cross))
        self.deep = nn.Sequential(nn.Linear(width, hidden), nn.ReLU(),
                                  nn.Linear(hidden, hidden // 2), nn.ReLU())
        self.out = nn.Linear(width + hidden // 2, 1)

    def forward(self, cats, dense):
        emb = [table(cats[:, k]) for k, table in enumerate(self.tables)]
        x0 = torch.cat(emb + [dense], dim=1)
        x = x0
        for layer in self.cross:
            x = layer(x0, x)
        return self.out(torch.cat([x, self.deep(x0)], dim=1)).squeeze(1)


@torch.no_grad()
def validate(model, loader):
    model.eval()
    scores, labels = [], []
    for cats, dense, label in loader:
        scores.append(torch.sigmoid(model(cats, dense)))
        labels.append(label)
    model.train()
    return roc_auc_score(torch.cat(labels).numpy(), torch.cat(scores).numpy())


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--steps", type=int, default=1500)
    p.add_argument("--batch-size", type=int, default=512)
    p.add_argument("--dim", type=int, default=16)
    p.add_argument("--hidden", type=int, default=256)
    p.add_argument("--cross", type=int, default=2)
    p.add_argument("--lr", type=float, default=1e-3)
    p.add_argument("--emb-lr", type=float, default=2e-3)
    p.add_argument("--weight-decay", type=float, default=1e-5)
    p.add_argument("--log-every", type=int, default=50)
    p.add_argument("--eval-every", type=int, default=500)
    p.add_argument("--seed", type=int, default=0)
    args = p.parse_args()
    torch.manual_seed(args.seed)
    torch.set_num_threads(2)

    train = DataLoader(ClickStream(args.steps, args.batch_size, args.seed, 1), batch_size=None)
    valid = DataLoader(ClickStream(20, 1024, args.seed, 2), batch_size=None)
    model = ClickNet(args.dim, args.hidden, args.cross)
    sparse = list(model.tables.parameters())
    dense_params = [w for n, w in model.named_parameters() if not n.startswith("tables.")]
    opt_dense = torch.optim.AdamW(dense_params, lr=args.lr, weight_decay=args.weight_decay)
    opt_emb = torch.optim.SparseAdam(sparse, lr=args.emb_lr)
    criterion = nn.BCEWithLogitsLoss()
    print(f"{sum(w.numel() for w in model.parameters()) / 1e6:.2f}M parameters")

    running, started = torch.zeros(()), time.time()
    for step, (cats, dense, label) in enumerate(train, 1):
        logits = model(cats, dense)
        loss = criterion(logits, label)
        opt_dense.zero_grad(set_to_none=True)
        opt_emb.zero_grad(set_to_none=True)
        loss.backward()
        opt_dense.step()
        opt_emb.step()
        running += loss.detach()
        if step % args.log_every == 0:
            print(json.dumps({"step": step, "loss": round(running.item() / args.log_every, 4),
                              "samples_per_s": round(step * args.batch_size / (time.time() - started))}),
                  flush=True)
            running.zero_()
        if step % args.eval_every == 0:
            print(json.dumps({"step": step, "valid_auc": round(float(validate(model, valid)), 4)}),
                  flush=True)


if __name__ == "__main__":
    main()
