"""A wide network on the digits, on as many threads as there are cores."""

import argparse

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--width", type=int, default=2048)
    args = parser.parse_args()

    torch.manual_seed(0)
    digits = load_digits()
    data = TensorDataset(torch.from_numpy(digits.data).float() / 16, torch.from_numpy(digits.target))
    loader = DataLoader(data, batch_size=256, shuffle=True)
    width = args.width
    model = nn.Sequential(nn.Linear(64, width), nn.ReLU())
    for _ in range(2):
        model.extend([nn.Linear(width, width), nn.ReLU()])
    model.append(nn.Linear(width, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for epoch in range(args.epochs):
        for x, y in loader:
            loss = nn.functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch}: loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
