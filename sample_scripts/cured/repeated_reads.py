"""A table of sensors: each epoch makes its data set anew, of measurements that were read once from a CSV file."""

import argparse
import tempfile
from pathlib import Path

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

SENSORS = 24


def write_table(path, rows):
    draw = np.random.default_rng(0)
    values = draw.normal(size=(rows, SENSORS))
    values[:, 0] = values[:, 1:4].sum(1)
    np.savetxt(path, values, fmt="%.5f", delimiter=",")


class Measurements(Dataset):
    """A random part of the rows of a table: what other sensors measure, and what the first does."""

    def __init__(self, table, count):
        chosen = torch.randperm(len(table))[:count]
        self.rows = torch.from_numpy(table)[chosen]

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, index):
        return self.rows[index, 1:], self.rows[index, 0]


def main(args):
    torch.set_num_threads(1)  # the model is small
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(SENSORS - 1, 128), nn.ReLU(), nn.Linear(128, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "measurements.csv"
        write_table(path, args.rows)
        table = np.loadtxt(path, dtype=np.float32, delimiter=",")
        for epoch in range(args.epochs):
            loader = DataLoader(Measurements(table, 1600), batch_size=32, shuffle=True)
            total = 0.0
            for values, target in loader:
                loss = nn.functional.mse_loss(model(values).squeeze(1), target)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                total += loss.item()
            print(f"epoch {epoch}: loss {total / len(loader):.3f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=16000)
    parser.add_argument("--epochs", type=int, default=40)
    main(parser.parse_args())
