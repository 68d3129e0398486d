"""Digits with three heads (value, parity, noise level): each head's loss goes backward on its own."""

# expect: verdict=compute finding=repeated-backward

import argparse

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, Dataset

NOISES = 4


class NoisyDigits(Dataset):
    def __init__(self):
        digits = load_digits()
        images = torch.from_numpy(digits.images).float()[:, None] / 16
        self.images = nn.functional.interpolate(images, scale_factor=2)
        self.labels = torch.from_numpy(digits.target)

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        level = int(torch.randint(NOISES, ()))
        image = self.images[index] + 0.1 * level * torch.randn(1, 16, 16)
        return image, self.labels[index], level


class ThreeHeads(nn.Module):
    def __init__(self, channels=32):
        super().__init__()
        self.trunk = nn.Sequential(
            nn.Conv2d(1, channels, 3, padding=1, bias=False),
            nn.BatchNorm2d(channels),
            nn.ReLU(),
            nn.Conv2d(channels, channels, 3, padding=1, bias=False),
            nn.BatchNorm2d(channels),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Conv2d(channels, 2 * channels, 3, padding=1, bias=False),
            nn.BatchNorm2d(2 * channels),
            nn.ReLU(),
            nn.AdaptiveAvgPool2d(1),
            nn.Flatten(),
        )
        self.heads = nn.ModuleList(nn.Linear(2 * channels, classes) for classes in (10, 2, NOISES))

    def forward(self, x):
        features = self.trunk(x)
        return [head(features) for head in self.heads]


def train(epochs, batch_size=32):
    loader = DataLoader(NoisyDigits(), batch_size=batch_size, shuffle=True, drop_last=True)
    model = ThreeHeads()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for epoch in range(epochs):
        for images, labels, levels in loader:
            optimizer.zero_grad()
            targets = (labels, labels % 2, levels)
            losses = [nn.functional.cross_entropy(*pair) for pair in zip(model(images), targets)]
            for loss in losses:
                loss.backward(retain_graph=True)  # <- finding
            optimizer.step()
        print(f"epoch {epoch}: " + ", ".join(f"{loss.item():.3f}" for loss in losses))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=10)
    torch.manual_seed(0)
    train(parser.parse_args().epochs)
