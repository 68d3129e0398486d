"""Digits with label noise: the gradients' norms before clipping are taken by a pass of their own."""

# expect: verdict=compute finding=repeated-backward

import argparse

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

WRONG = 0.05  # share of the labels


def digits():
    read = load_digits()
    images = nn.functional.interpolate(torch.from_numpy(read.images).float()[:, None] / 16, scale_factor=2)
    labels = torch.from_numpy(read.target)
    labels = torch.where(torch.rand(len(labels)) < WRONG, torch.randint(10, labels.shape), labels)
    return TensorDataset(images, labels)


def network(channels=32):
    return nn.Sequential(
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
        nn.Linear(2 * channels, 10),
    )


class Trainer:
    def __init__(self, model):
        self.model = model
        self.parameters = list(model.parameters())
        self.optimizer = torch.optim.SGD(self.parameters, lr=0.05, momentum=0.9)
        self.largest = 0.0

    def step(self, images, labels):
        loss = nn.functional.cross_entropy(self.model(images), labels)
        raw = torch.autograd.grad(loss, self.parameters, retain_graph=True)  # <- finding
        self.log(raw)
        self.optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(self.parameters, 1.0)
        self.optimizer.step()
        return loss

    def log(self, gradients):
        norm = torch.stack([gradient.norm() for gradient in gradients]).norm()
        self.largest = max(self.largest, norm.item())


def train(epochs, batch_size=32):
    loader = DataLoader(digits(), batch_size=batch_size, shuffle=True, drop_last=True)
    trainer = Trainer(network())
    for epoch in range(epochs):
        for images, labels in loader:
            loss = trainer.step(images, labels)
        print(f"epoch {epoch}: {loss.item():.3f}, largest gradient {trainer.largest:.2f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=12)
    torch.manual_seed(0)
    train(parser.parse_args().epochs)
