"""Power from wind: a regression on a table of invented weather."""

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset, random_split


def weather(rows):
    """Speed, direction, temperature, pressure and height, and the power that a turbine makes of them."""
    random = torch.Generator().manual_seed(0)
    table = torch.randn(rows, 5, generator=random)
    speed = (10 + 4 * table[:, 0]).clamp(0, 25)
    power = 0.01 * speed**3 * (1 - 0.02 * table[:, 2]) * (1 + 0.1 * torch.cos(table[:, 1]))
    return TensorDataset(table, power / 50)


def build(width):
    return nn.Sequential(
        nn.Linear(5, width), nn.GELU(), nn.Linear(width, width), nn.GELU(),
        nn.Linear(width, width), nn.GELU(), nn.Linear(width, 1),
    )  # fmt: skip


@torch.no_grad()
def evaluate(model, loader):
    model.eval()
    errors = [(model(table).squeeze(1) - power).abs().mean() for table, power in loader]
    model.train()
    return torch.stack(errors).mean().item()


def main(epochs, rows, width):
    torch.manual_seed(0)
    train_set, test_set = random_split(weather(rows), [0.9, 0.1])
    loader = DataLoader(train_set, batch_size=512, shuffle=True)
    test_loader = DataLoader(test_set, batch_size=1024)
    model = build(width)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    for epoch in range(epochs):
        for table, power in loader:
            loss = nn.functional.mse_loss(model(table).squeeze(1), power)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch}: loss {loss.item():.4f}, error {evaluate(model, test_loader):.4f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=8)
    parser.add_argument("--rows", type=int, default=24_000)
    parser.add_argument("--width", type=int, default=512)
    args = parser.parse_args()
    main(args.epochs, args.rows, args.width)
