"""Sets of points told apart by their order statistics; of each column the model takes the smallest values only."""

import argparse

import torch
from torch import nn

POINTS = 256
KEPT = 8


class SortedSet(nn.Module):
    """What a set looks like from several sides: the smallest values of its points' projections."""

    def __init__(self, width):
        super().__init__()
        self.project = nn.Linear(3, width)
        self.classify = nn.Sequential(nn.Linear(width * KEPT, 64), nn.ReLU(), nn.Linear(64, 2))

    def forward(self, points):
        sides = self.project(points)
        ordered, _ = torch.topk(sides, KEPT, dim=1, largest=False)
        return self.classify(ordered.flatten(1))


def clouds(count, generator):
    """Balls, and balls that are longer than wide."""
    labels = torch.randint(2, (count,), generator=generator)
    points = torch.randn(count, POINTS, 3, generator=generator)
    points[:, :, 0] *= 1 + 0.5 * labels[:, None]
    return points, labels


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--steps", type=int, default=500)
    parser.add_argument("--batch-size", type=int, default=48)
    parser.add_argument("--width", type=int, default=32)
    args = parser.parse_args()

    torch.manual_seed(0)
    generator = torch.Generator().manual_seed(0)
    batches = [clouds(args.batch_size, generator) for _ in range(16)]
    model = SortedSet(args.width)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for step in range(args.steps):
        points, labels = batches[step % len(batches)]
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(model(points), labels)
        loss.backward()
        optimizer.step()
        if step % 50 == 0:
            print(f"step {step}: loss {loss.item():.3f}")


if __name__ == "__main__":
    main()
