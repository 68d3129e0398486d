"""House prices by a sum of curves: one small network for each column of the table."""

# expect: verdict=compute finding=unfused-optimizer

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Curve(nn.Module):
    """A function of one column."""

    def __init__(self, width):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Linear(1, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(), nn.Linear(width, 1)
        )

    def forward(self, column):
        return self.layers(column)


class AdditiveModel(nn.Module):
    def __init__(self, columns, width=12):
        super().__init__()
        self.curves = nn.ModuleList(Curve(width) for _ in range(columns))
        self.mean = nn.Parameter(torch.zeros(()))

    def forward(self, table):
        prices = [curve(table[:, [at]]) for at, curve in enumerate(self.curves)]
        return torch.cat(prices, 1).sum(1) + self.mean


def houses(rows, columns):
    """Invented houses: each column bends the price in its own way."""
    random = torch.Generator().manual_seed(0)
    table = torch.randn(rows, columns, generator=random)
    bends = torch.randn(columns, generator=random)
    price = (torch.sin(table * bends) * bends).sum(1) / columns**0.5
    return TensorDataset(table, price + 0.1 * torch.randn(rows, generator=random))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=9_600)
    parser.add_argument("--columns", type=int, default=64)
    parser.add_argument("--epochs", type=int, default=3)
    args = parser.parse_args()

    torch.manual_seed(0)
    torch.set_num_threads(1)  # the matrices are small: more threads would wait for each other
    loader = DataLoader(houses(args.rows, args.columns), batch_size=128, shuffle=True)
    model = AdditiveModel(args.columns)
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)  # <- finding
    for epoch in range(args.epochs):
        for table, price in loader:
            loss = nn.functional.mse_loss(model(table), price)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch}: squared error {loss.item():.4f}")
