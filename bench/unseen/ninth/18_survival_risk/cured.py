"""Deep Cox model for time to readmission on tabular patient records.

    python train.py --epochs 20
"""
import argparse
import csv
import json
import os
import time

import numpy as np
import torch
import torch.nn as nn
from sklearn.preprocessing import StandardScaler


def make_cohort(patients, numeric, wards, seed):
    rng = np.random.default_rng(seed)
    shape = np.random.default_rng(5)
    x = rng.normal(size=(patients, numeric)) * np.exp(rng.normal(0, 0.1, numeric)) + 2
    ward = rng.integers(0, wards, patients)
    beta = shape.normal(0, 0.3, numeric)
    z = x - 2
    risk = z @ beta + 0.4 * z[:, 0] * z[:, 1] - 0.3 * np.abs(z[:, 2]) + shape.normal(0, 0.5, wards)[ward]
    event_time = rng.weibull(1.3, patients) * np.exp(-risk / 1.3) * 180
    censor_time = rng.uniform(150, 900, patients)
    duration = np.minimum(event_time, censor_time)
    return x, ward, duration.astype(np.float32), (event_time <= censor_time)


def cox_loss(score, duration, event):
    """Negative log partial likelihood over the risk sets of the batch (Breslow ties)."""
    order = torch.argsort(duration, descending=True)
    score, duration, event = score[order], duration[order], event[order]
    last = torch.searchsorted(-duration, -duration, right=True) - 1
    return (torch.logcumsumexp(score, dim=0)[last] - score)[event].mean()


def concordance(score, duration, event):
    """Harrell's C: share of comparable pairs that the score orders correctly."""
    comparable = event[:, None] & (duration[None, :] > duration[:, None])
    diff = score[:, None] - score[None, :]
    good = ((diff > 0) & comparable).sum() + 0.5 * ((diff == 0) & comparable).sum()
    return good.item() / max(comparable.sum().item(), 1)


class ResidualBlock(nn.Module):
    def __init__(self, width, dropout):
        super().__init__()
        self.net = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 2 * width), nn.SiLU(),
                                 nn.Dropout(dropout), nn.Linear(2 * width, width))

    def forward(self, x):
        return x + self.net(x)


class RiskNet(nn.Module):
    def __init__(self, numeric, wards, width, blocks, dropout):
        super().__init__()
        self.ward = nn.Embedding(wards, 16)
        self.inp = nn.Linear(numeric + 16, width)
        self.blocks = nn.Sequential(*[ResidualBlock(width, dropout) for _ in range(blocks)])
        self.out = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 1))

    def forward(self, x, ward):
        return self.out(self.blocks(self.inp(torch.cat([x, self.ward(ward)], 1)))).squeeze(1)


@torch.no_grad()
def predict(model, cohort):
    x, ward, duration, event = cohort
    model.eval()
    score = model(x, ward)
    model.train()
    return score, duration, event


class History:
    def __init__(self, path):
        self.path, self.rows = path, []

    def add(self, **row):
        self.rows.append(row)
        with open(self.path, "w", newline="") as f:
            writer = csv.DictWriter(f, fieldnames=sorted({k for r in self.rows for k in r}))
            writer.writeheader()
            writer.writerows(self.rows)


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--patients", type=int, default=9600)
    p.add_argument("--valid", type=int, default=1000)
    p.add_argument("--numeric", type=int, default=40)
    p.add_argument("--wards", type=int, default=30)
    p.add_argument("--epochs", type=int, default=20)
    p.add_argument("--batch-size", type=int, default=160)
    p.add_argument("--width", type=int, default=128)
    p.add_argument("--blocks", type=int, default=3)
    p.add_argument("--dropout", type=float, default=0.2)
    p.add_argument("--lr", type=float, default=1e-3)
    p.add_argument("--eval-every", type=int, default=20)
    p.add_argument("--patience", type=int, default=100)
    p.add_argument("--out", default="runs")
    p.add_argument("--seed", type=int, default=0)
    args = p.parse_args()
    torch.manual_seed(args.seed)
    torch.set_num_threads(2)
    os.makedirs(args.out, exist_ok=True)

    x, ward, duration, event = make_cohort(args.patients + args.valid, args.numeric, args.wards, args.seed)
    x = StandardScaler().fit(x[:args.patients]).transform(x).astype(np.float32)
    data = [torch.from_numpy(a) for a in (x, ward, duration, event)]
    train = [a[:args.patients] for a in data]
    valid = [a[args.patients:] for a in data]
    model = RiskNet(args.numeric, args.wards, args.width, args.blocks, args.dropout)
    opt = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=0.02)
    history = History(os.path.join(args.out, "history.csv"))

    step, best, waited, started = 0, 0.0, 0, time.time()
    running = torch.zeros(())
    for epoch in range(args.epochs):
        for rows in torch.randperm(args.patients).split(args.batch_size):
            x, ward, duration, event = (a[rows] for a in train)
            loss = cox_loss(model(x, ward), duration, event)
            opt.zero_grad(set_to_none=True)
            loss.backward()
            opt.step()
            running += loss.detach()
            step += 1
            if step % args.eval_every == 0:
                c_index = concordance(*predict(model, valid))
                mean = running.item() / args.eval_every
                running.zero_()
                history.add(step=step, loss=round(mean, 4), c_index=round(c_index, 4))
                print(json.dumps({"step": step, "loss": round(mean, 4), "c_index": round(c_index, 4),
                                  "steps_per_s": round(step / (time.time() - started), 1)}), flush=True)
                if c_index > best:
                    best, waited = c_index, 0
                    torch.save(model.state_dict(), os.path.join(args.out, "best.pt"))
                else:
                    waited += 1
                if waited > args.patience:
                    return


if __name__ == "__main__":
    main()
