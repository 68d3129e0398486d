"""A small classifier of images that learns from a larger one, whose own weights stay as they are."""

import argparse

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

CLASSES, SIDE = 10, 24


class Classifier(nn.Module):
    def __init__(self, width, blocks):
        super().__init__()
        layers = [nn.Conv2d(3, width, 3, 2, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU()]
        for _ in range(blocks):
            layers += [nn.Conv2d(width, width, 3, padding=1, bias=False), nn.BatchNorm2d(width), nn.ReLU()]
        self.layers = nn.Sequential(*layers)
        self.head = nn.Linear(width, CLASSES)

    def forward(self, images):
        return self.head(self.layers(images).mean((2, 3)))


def images(count, seed):
    make = torch.Generator().manual_seed(seed)
    labels = torch.randint(CLASSES, (count,), generator=make)
    tones = torch.randn(CLASSES, 3, 1, 1, generator=make)[labels]
    return TensorDataset(tones + torch.randn(count, 3, SIDE, SIDE, generator=make), labels)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=9)
    parser.add_argument("--batch-size", type=int, default=64)
    parser.add_argument("--temperature", type=float, default=2.0)
    args = parser.parse_args()

    torch.manual_seed(0)
    teacher, student = Classifier(48, 4).eval(), Classifier(24, 3)
    optimizer = torch.optim.SGD(student.parameters(), lr=0.05, momentum=0.9, fused=True)
    loader = DataLoader(images(3840, 0), batch_size=args.batch_size, shuffle=True, drop_last=True)
    for epoch in range(args.epochs):
        for pictures, labels in loader:
            with torch.no_grad():
                aims = teacher(pictures) / args.temperature
            guesses = student(pictures)
            loss = nn.functional.cross_entropy(guesses, labels) + nn.functional.kl_div(
                (guesses / args.temperature).log_softmax(1), aims.softmax(1), reduction="batchmean"
            )
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch}: loss {loss.item():.3f}")


if __name__ == "__main__":
    main()
