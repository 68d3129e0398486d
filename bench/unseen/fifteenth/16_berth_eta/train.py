"""Predicts how late a container vessel berths from voyage, port and vessel attributes (mixed tabular data)."""
import argparse
import json
import tempfile
import time
from pathlib import Path

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F

CARDINALITY = {"port": 220, "carrier": 45, "vessel_class": 14, "terminal": 380, "month": 12, "weekday": 7}
N_NUMERIC = 22


def port_calls(n, seed):
    """Numeric attributes, categorical codes and the delay (in hours, signed log scale) of n port calls."""
    rng = np.random.default_rng(seed)
    codes = np.stack([rng.integers(0, c, n) for c in CARDINALITY.values()], axis=1)
    x = rng.normal(size=(n, N_NUMERIC)).astype(np.float32)
    world = np.random.default_rng(77)
    effect = sum(world.normal(0, 0.4, c)[codes[:, j]] for j, c in enumerate(CARDINALITY.values()))
    season = world.normal(0, 0.5, (220, 12))[codes[:, 0], codes[:, 4]]
    weather = np.maximum(0, x[:, 0] + 0.5 * x[:, 1]) * (1 + 0.6 * x[:, 2]) - 0.4 * x[:, 3] * x[:, 4]
    queue = np.log1p(np.exp(x[:, 5] + 0.7 * x[:, 6])) * 0.8
    delay = effect + season + weather + queue + rng.normal(0, 0.6, n)
    x[rng.random(x.shape) < 0.03] = 0.0
    return torch.from_numpy(x), torch.from_numpy(codes), torch.from_numpy(delay.astype(np.float32))


class TableBatches:
    """Shuffled batches of a table that fits in memory; one gather a column block."""

    def __init__(self, table, batch_size, shuffle):
        self.table, self.batch_size, self.shuffle = table, batch_size, shuffle

    def __len__(self):
        return len(self.table[0]) // self.batch_size if self.shuffle else -(-len(self.table[0]) // self.batch_size)

    def __iter__(self):
        n = len(self.table[0])
        if self.shuffle:
            order = torch.randperm(n)
            for i in range(len(self)):
                rows = order[i * self.batch_size:(i + 1) * self.batch_size]
                yield tuple(column.index_select(0, rows) for column in self.table)
        else:
            yield from zip(*(column.split(self.batch_size) for column in self.table))


class CategoryEmbedding(nn.Module):
    """All categorical columns in one table with offsets."""

    def __init__(self, cardinality, dim):
        super().__init__()
        sizes = torch.tensor(list(cardinality))
        self.table = nn.Embedding(int(sizes.sum()), dim)
        nn.init.normal_(self.table.weight, std=0.05)
        self.register_buffer("offset", sizes.cumsum(0) - sizes)

    def forward(self, codes):
        return self.table(codes + self.offset).flatten(1)


class ResidualBlock(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 2 * width)
        self.down = nn.Linear(2 * width, width)

    def forward(self, x):
        return x + self.down(F.relu(self.up(self.norm(x))))


class DelayNet(nn.Module):
    def __init__(self, width, depth, dropout, emb=12):
        super().__init__()
        self.categories = CategoryEmbedding(CARDINALITY.values(), emb)
        self.stem = nn.Linear(N_NUMERIC + emb * len(CARDINALITY), width)
        self.blocks = nn.Sequential(*(ResidualBlock(width) for _ in range(depth)))
        self.head = nn.Sequential(nn.LayerNorm(width), nn.Dropout(dropout), nn.Linear(width, 1))

    def forward(self, x, codes):
        h = self.stem(torch.cat([x, self.categories(codes)], dim=1))
        return self.head(self.blocks(h)).squeeze(-1)


@torch.inference_mode()
def validate(model, batches):
    model.eval()
    absolute = square = torch.zeros(())
    n = 0
    for x, codes, y in batches:
        error = model(x, codes) - y
        absolute = absolute + error.abs().sum()
        square = square + error.square().sum()
        n += len(y)
    model.train()
    return {"mae": (absolute / n).item(), "rmse": (square / n).sqrt().item()}


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--calls", type=int, default=160_000)
    p.add_argument("--val-calls", type=int, default=10_000)
    p.add_argument("--batch-size", type=int, default=1024)
    p.add_argument("--epochs", type=int, default=4)
    p.add_argument("--width", type=int, default=256)
    p.add_argument("--depth", type=int, default=4)
    p.add_argument("--dropout", type=float, default=0.1)
    p.add_argument("--lr", type=float, default=2e-3)
    p.add_argument("--seed", type=int, default=2)
    p.add_argument("--out", type=Path, default=Path(tempfile.gettempdir()) / "berth_eta")
    args = p.parse_args()
    torch.manual_seed(args.seed)
    args.out.mkdir(parents=True, exist_ok=True)

    train = TableBatches(port_calls(args.calls, args.seed), args.batch_size, shuffle=True)
    val = TableBatches(port_calls(args.val_calls, args.seed + 1), 2048, shuffle=False)
    model = DelayNet(args.width, args.depth, args.dropout)
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr, weight_decay=1e-2, fused=True)
    scheduler = torch.optim.lr_scheduler.OneCycleLR(optimizer, args.lr, total_steps=args.epochs * len(train))
    print(f"{args.calls} calls, {sum(q.numel() for q in model.parameters()) / 1e6:.2f}M parameters, {len(train)} steps an epoch")

    best, step, running = float("inf"), 0, torch.zeros(())
    for epoch in range(args.epochs):
        start = time.time()
        for x, codes, y in train:
            loss = F.smooth_l1_loss(model(x, codes), y)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            optimizer.step()
            scheduler.step()
            running += loss.detach()
            step += 1
            if step % 50 == 0:
                print(f"step {step} loss {running.item() / 50:.4f}", flush=True)
                running.zero_()
        metrics = validate(model, val)
        print(json.dumps({"epoch": epoch, "step": step, "s": round(time.time() - start, 1), **metrics}), flush=True)
        if metrics["rmse"] < best:
            best = metrics["rmse"]
            torch.save(model.state_dict(), args.out / "best.pt")


if __name__ == "__main__":
    main()
