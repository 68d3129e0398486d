"""Validation after every epoch in eval mode and without gradients."""

import argparse

import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class ResidualNet(nn.Module):
    def __init__(self, channels=16, depth=6):
        super().__init__()
        self.stem = nn.Conv2d(1, channels, 3, padding=1)
        self.blocks = nn.ModuleList(nn.Conv2d(channels, channels, 1) for _ in range(depth))
        self.norms = nn.ModuleList(nn.BatchNorm2d(channels) for _ in range(depth))
        self.head = nn.Linear(channels, 10)

    def forward(self, x):
        x = self.stem(x)
        for block, norm in zip(self.blocks, self.norms):
            x = x + nn.functional.silu(norm(block(x)))
        return self.head(x.mean((2, 3)))


class Experiment:
    def __init__(self, epochs):
        self.epochs = epochs
        digits = load_digits()
        images = nn.functional.interpolate(
            torch.from_numpy(digits.images).float()[:, None] / 16, scale_factor=4
        )
        labels = torch.from_numpy(digits.target)
        train, test = train_test_split(torch.arange(len(labels)), test_size=0.8, random_state=0)
        self.train_loader = DataLoader(
            TensorDataset(images[train], labels[train]), batch_size=32, shuffle=True
        )
        self.test_loader = DataLoader(TensorDataset(images[test], labels[test]), batch_size=256)
        self.model = ResidualNet()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=3e-3)

    def run(self):
        for epoch in range(self.epochs):
            self.train()
            print(f"epoch {epoch}: accuracy {self.validate():.3f}")

    def train(self):
        self.model.train()
        for images, labels in self.train_loader:
            self.optimizer.zero_grad()
            nn.functional.cross_entropy(self.model(images), labels).backward()
            self.optimizer.step()

    @torch.no_grad()
    def validate(self):
        self.model.eval()
        right = 0
        for images, labels in self.test_loader:
            output = self.model(images)
            right += (output.argmax(1) == labels).sum().item()
        return right / len(self.test_loader.dataset)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=10)
    torch.manual_seed(0)
    Experiment(parser.parse_args().epochs).run()
