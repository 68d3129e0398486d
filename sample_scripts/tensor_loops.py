"""Digits are embedded by a contrastive loss that goes over the samples of a batch one by one."""

# expect: verdict=compute finding=tensor-loops

import argparse

import torch
from sklearn.datasets import load_digits
from torch import nn


class Embedding(nn.Module):
    def __init__(self, width=64, size=16):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(64, width), nn.ReLU(), nn.Linear(width, size))

    def forward(self, x):
        return nn.functional.normalize(self.layers(x), dim=1)


def contrastive_loss(embedded, labels):
    sign = torch.where(labels[:, None] == labels, 1.0, -0.1)
    total = 0.0
    for i in range(len(embedded)):
        distance = (embedded - embedded[i]).square().sum(1).add(1e-6).sqrt().clamp(max=1.2)  # <- finding
        total = total + (sign[i] @ distance)
    return total / len(embedded) ** 2


def train(steps, batch_size=96):
    digits = load_digits()
    images = torch.from_numpy(digits.data).float() / 16
    labels = torch.from_numpy(digits.target)
    model = Embedding()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for step in range(steps):
        chosen = torch.randint(len(images), (batch_size,))
        loss = contrastive_loss(model(images[chosen]), labels[chosen])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 100 == 0:
            print(f"step {step}: loss {loss.item():.3f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=500)
    torch.manual_seed(0)
    train(parser.parse_args().steps)
