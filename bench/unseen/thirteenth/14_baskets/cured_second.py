"""Next-item model for a grocery chain's loyalty-card log (self-attention over the last purchases), with accelerate.

The log is simulated: shoppers have tastes over departments, and some items follow one another.
"""
import argparse
import os
import time

import numpy as np
import pandas as pd
import torch
import torch.nn as nn
import torch.nn.functional as F
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch.utils.data import DataLoader, Dataset

PAD = 0


def simulate_log(customers, items, departments, seed):
    """One row per purchase: customer, day, item, price, store."""
    rng = np.random.default_rng(seed)
    dept_of = rng.integers(0, departments, items)
    shelves = [np.flatnonzero(dept_of == d) + 1 for d in range(departments)]
    partner = rng.permutation(items) + 1
    rows = []
    for c in range(customers):
        n = int(rng.integers(12, 40))
        taste = rng.dirichlet(np.full(departments, 0.15))
        depts = rng.choice(departments, n, p=taste)
        item = np.array([shelves[d][int(len(shelves[d]) * u ** 2)] for d, u in zip(depts, rng.random(n))])
        follow = rng.random(n) < 0.45
        for i in range(1, n):
            if follow[i]:
                item[i] = partner[item[i - 1] - 1]
        days = np.sort(rng.integers(0, 360, n) + rng.random(n))
        rows.append(pd.DataFrame({"customer": c, "day": days, "item": item}))
    log = pd.concat(rows, ignore_index=True)
    log["price"] = rng.gamma(2.0, 2.5, len(log)).round(2)
    log["store"] = rng.integers(0, 40, len(log))
    # the tills deliver in their own order
    return log.sample(frac=1.0, random_state=seed).reset_index(drop=True)


class PurchaseHistories(Dataset):
    """The last `length` + 1 purchases of each customer, as input and shifted target."""

    def __init__(self, log, customers, length, holdout=0):
        self.log = log
        self.customers = list(customers)
        self.length = length
        self.holdout = holdout

    def __len__(self):
        return len(self.customers)

    def __getitem__(self, index):
        history = self.log[self.log["customer"] == self.customers[index]].sort_values("day")
        items = history["item"].to_numpy()
        days = history["day"].to_numpy()
        if self.holdout:
            items, days = items[:-self.holdout], days[:-self.holdout]
        items, days = items[-self.length - 1:], days[-self.length - 1:]
        n = len(items) - 1
        x = torch.full((self.length,), PAD)
        y = torch.full((self.length,), PAD)
        gap = torch.zeros(self.length)
        x[-n:] = torch.tensor(items[:-1])
        y[-n:] = torch.tensor(items[1:])
        gap[-n:] = torch.tensor(np.log1p(np.diff(days)), dtype=torch.float32)
        return x, gap, y


class NextItem(nn.Module):
    def __init__(self, items, length, width=64, heads=2, layers=2, dropout=0.1):
        super().__init__()
        self.item = nn.Embedding(items + 1, width, padding_idx=PAD)
        self.position = nn.Parameter(0.02 * torch.randn(length, width))
        self.gap = nn.Linear(1, width)
        layer = nn.TransformerEncoderLayer(width, heads, 2 * width, dropout, activation="gelu", batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, layers, norm=nn.LayerNorm(width), enable_nested_tensor=False)
        self.register_buffer("mask", torch.full((length, length), float("-inf")).triu(1), persistent=False)
        nn.init.normal_(self.item.weight, std=0.05)

    def forward(self, x, gap):
        h = self.item(x) + self.position + self.gap(gap.unsqueeze(-1))
        return self.encoder(h, mask=self.mask)

    def scores(self, h):
        return h @ self.item.weight.T


def ranking_metrics(scores, target):
    """Rank of the item that was bought, among all items: reciprocal rank and hit rate at 10."""
    rank = (scores > scores.gather(1, target.unsqueeze(1))).sum(1).float()
    return (1.0 / (rank + 1)).mean(), (rank < 10).float().mean()


@torch.no_grad()
def evaluate(model, loader, accelerator):
    model.eval()
    total = torch.zeros(3)
    for x, gap, y in loader:
        scores = model.scores(model(x, gap)[:, -1])
        mrr, hit = ranking_metrics(scores, y[:, -1])
        total += torch.stack([mrr * len(x), hit * len(x), torch.tensor(float(len(x)))])
    model.train()
    total = accelerator.reduce(total)
    return total[0] / total[2], total[1] / total[2]


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--epochs", type=int, default=10)
    ap.add_argument("--batch-size", type=int, default=64)
    ap.add_argument("--customers", type=int, default=3200)
    ap.add_argument("--items", type=int, default=3000)
    ap.add_argument("--length", type=int, default=16)
    ap.add_argument("--recent", type=int, default=3, help="ranks are logged for so many of the last purchases")
    ap.add_argument("--lr", type=float, default=2e-3)
    ap.add_argument("--out", default="/tmp/baskets")
    args = ap.parse_args()

    accelerator = Accelerator(cpu=True)
    set_seed(11)
    log = simulate_log(args.customers, args.items, departments=24, seed=3)
    accelerator.print(f"{len(log)} purchases by {args.customers} customers")
    everyone = np.arange(args.customers)
    train = PurchaseHistories(log, everyone, args.length, holdout=1)
    test = PurchaseHistories(log, everyone[:256], args.length)

    model = NextItem(args.items, args.length)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=0.01)
    train_loader = DataLoader(train, args.batch_size, shuffle=True, drop_last=True)
    test_loader = DataLoader(test, 128)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, args.epochs * len(train_loader))
    model, optimizer, train_loader, test_loader, schedule = accelerator.prepare(
        model, optimizer, train_loader, test_loader, schedule)

    step, begin, running = 0, time.time(), torch.zeros(3)
    for epoch in range(args.epochs):
        for x, gap, y in train_loader:
            h = model(x, gap)
            keep = y != PAD
            logits = model.scores(h[keep])
            loss = F.cross_entropy(logits, y[keep])
            optimizer.zero_grad()
            accelerator.backward(loss)
            accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            with torch.no_grad():
                recent = h[:, -args.recent:].flatten(0, 1)
                mrr, hit = ranking_metrics(model.scores(recent), y[:, -args.recent:].flatten())
            running += torch.stack([loss.detach(), mrr, hit])
            step += 1
            if step % 40 == 0:
                mean = running / 40
                running.zero_()
                accelerator.print(f"step {step} loss {mean[0]:.3f} mrr {mean[1]:.4f} hit@10 {mean[2]:.3f} {time.time() - begin:.1f} s")
        if epoch % 5 == 4:
            mrr, hit = evaluate(model, test_loader, accelerator)
            accelerator.print(f"epoch {epoch} held out: mrr {mrr:.4f} hit@10 {hit:.3f}")
    os.makedirs(args.out, exist_ok=True)
    accelerator.save(accelerator.unwrap_model(model).state_dict(), f"{args.out}/model.pt")


if __name__ == "__main__":
    main()
