"""A CNN on the digits, held in memory: bound by its convolutions, nothing to repair."""

# expect: verdict=healthy finding=none

import argparse

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def load(size):
    digits = load_digits()
    images = torch.from_numpy(digits.images).float().unsqueeze(1) / 16
    images = nn.functional.interpolate(images, size=(size, size), mode="bilinear")
    labels = torch.from_numpy(digits.target)
    return TensorDataset(images[:1500], labels[:1500]), TensorDataset(images[1500:], labels[1500:])


def block(inputs, outputs):
    return [nn.Conv2d(inputs, outputs, 3, padding=1), nn.BatchNorm2d(outputs), nn.ReLU(), nn.MaxPool2d(2)]


@torch.no_grad()
def accuracy(model, loader):
    model.eval()
    right = sum((model(x).argmax(1) == y).sum().item() for x, y in loader)
    model.train()
    return right / len(loader.dataset)


def main(epochs, batch_size):
    torch.manual_seed(0)
    train_set, test_set = load(32)
    train_loader = DataLoader(train_set, batch_size=batch_size, shuffle=True, drop_last=True)
    test_loader = DataLoader(test_set, batch_size=128)
    model = nn.Sequential(*block(1, 32), *block(32, 64), *block(64, 128), nn.Flatten(), nn.Linear(2048, 10))
    optimizer = torch.optim.AdamW(model.parameters())
    for epoch in range(epochs):
        for x, y in train_loader:
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(x), y).backward()
            optimizer.step()
        print(f"epoch {epoch}: accuracy {accuracy(model, test_loader):.3f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--batch-size", type=int, default=64)
    args = parser.parse_args()
    main(args.epochs, args.batch_size)
