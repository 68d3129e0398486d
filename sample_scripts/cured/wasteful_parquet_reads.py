"""Daily sensor tables in Parquet: of a hundred and sixty columns the four that are used are read (needs pandas and pyarrow)."""

import argparse
import tempfile
from pathlib import Path

import numpy as np
import pandas as pd
import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

FEATURES = ["pressure", "flow", "heat"]
TARGET = "yield"
ROWS = 4096


def write_days(folder, days):
    random = np.random.default_rng(0)
    for day in range(days):
        columns = {f"sensor_{number}": random.normal(size=ROWS) for number in range(156)}
        columns |= {name: random.normal(size=ROWS) for name in FEATURES}
        columns[TARGET] = columns["pressure"] * columns["flow"] - columns["heat"]
        pd.DataFrame(columns).to_parquet(folder / f"day{day:03d}.parquet")


class Days(IterableDataset):
    """Batches of rows, day after day; each worker takes every n-th day."""

    def __init__(self, folder, batch_size):
        self.paths, self.batch_size = sorted(folder.glob("*.parquet")), batch_size

    def __iter__(self):
        worker = get_worker_info()
        for path in self.paths[worker.id :: worker.num_workers]:
            day = pd.read_parquet(path, columns=[*FEATURES, TARGET])
            x = torch.from_numpy(day[FEATURES].to_numpy(np.float32))
            y = torch.from_numpy(day[[TARGET]].to_numpy(np.float32))
            for start in range(0, ROWS, self.batch_size):
                yield x[start : start + self.batch_size], y[start : start + self.batch_size]


def fit(folder, epochs, batch_size):
    loader = DataLoader(Days(folder, batch_size), batch_size=None, num_workers=2, persistent_workers=True)
    model = nn.Sequential(nn.Linear(3, 64), nn.Tanh(), nn.Linear(64, 1))
    optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-3)
    for epoch in range(epochs):
        losses = []
        for x, y in loader:
            loss = nn.functional.mse_loss(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
        print(f"epoch {epoch}: loss {torch.stack(losses).mean():.4f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--days", type=int, default=24)
    parser.add_argument("--epochs", type=int, default=20)
    parser.add_argument("--batch-size", type=int, default=2048)
    args = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(1)  # the matrices are small: more threads would wait for each other
    with tempfile.TemporaryDirectory() as name:
        write_days(Path(name), args.days)
        fit(Path(name), args.epochs, args.batch_size)
