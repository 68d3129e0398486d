"""Scanned letters, shifted and blurred by one worker that is always ahead of the network."""

# expect: verdict=healthy finding=none

import argparse

import numpy as np
import torch
from scipy import ndimage
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Scans(Dataset):
    """Digits of 32 x 32, each a little different every time."""

    def __init__(self):
        digits = load_digits()
        self.images = np.kron(digits.images.astype(np.float32) / 16, np.ones((1, 4, 4), np.float32))
        self.labels = digits.target

    def __len__(self):
        return len(self.images)

    def __getitem__(self, index):
        down, right = torch.randint(-3, 4, (2,)).tolist()
        image = np.roll(self.images[index], (down, right), (0, 1))
        return torch.from_numpy(ndimage.gaussian_filter(image, 0.7))[None], int(self.labels[index])


def network():
    layers, channels = [], 1
    for width in (24, 48, 96):
        layers += [
            nn.Conv2d(channels, width, 3, padding=1, bias=False),
            nn.BatchNorm2d(width),
            nn.ReLU(),
            nn.MaxPool2d(2),
        ]
        channels = width
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(96 * 16, 10))


def main(epochs):
    loader = DataLoader(
        Scans(), batch_size=64, shuffle=True, drop_last=True, num_workers=1, persistent_workers=True
    )
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.02, momentum=0.9, nesterov=True)
    for epoch in range(epochs):
        total = torch.zeros(())
        for images, labels in loader:
            loss = nn.functional.cross_entropy(model(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            total += loss.detach()
        print(f"epoch {epoch}: loss {total.item() / len(loader):.3f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=4)
    args = parser.parse_args()
    torch.manual_seed(0)
    main(args.epochs)
