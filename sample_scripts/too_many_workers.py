"""Shapes as clouds of points, thinned out on the fly by as many workers as the paper's authors had cores for."""

# expect: verdict=data finding=too-many-workers

import argparse

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

SHAPES = ("ball", "box", "tube", "cone")


def surface(shape, count, random):
    """Points on a shape of size one."""
    points = random.normal(size=(count, 3))
    if shape == "ball":
        return points / np.linalg.norm(points, axis=1, keepdims=True)
    if shape == "box":
        return points / np.abs(points).max(1, keepdims=True)
    height = random.uniform(0, 1, (count, 1))
    ring = points[:, :2] / np.linalg.norm(points[:, :2], axis=1, keepdims=True)
    return np.hstack([ring if shape == "tube" else ring * height, height])


def farthest(points, count):
    """Indices of points that are far from each other, found one by one."""
    chosen, distance = [0], np.full(len(points), np.inf)
    for _ in range(count - 1):
        distance = np.minimum(distance, ((points - points[chosen[-1]]) ** 2).sum(1))
        chosen.append(int(distance.argmax()))
    return chosen


class Clouds(Dataset):
    def __init__(self, count, points):
        self.count, self.points = count, points

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        random = np.random.default_rng(int(torch.randint(2**31, ())))
        label = index % len(SHAPES)
        points = surface(SHAPES[label], 8 * self.points, random)
        points = points[farthest(points, self.points)] @ np.linalg.qr(random.normal(size=(3, 3)))[0]
        return torch.from_numpy(points.astype(np.float32)), label


class PointNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.each = nn.Sequential(
            nn.Linear(3, 64), nn.ReLU(), nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 512)
        )
        self.all = nn.Sequential(nn.Linear(512, 128), nn.ReLU(), nn.Linear(128, len(SHAPES)))

    def forward(self, points):
        return self.all(self.each(points).amax(1))


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clouds", type=int, default=288)
    parser.add_argument("--epochs", type=int, default=16)
    args = parser.parse_args()

    torch.manual_seed(0)
    torch.set_num_threads(1)  # the other core belongs to the workers
    loader = DataLoader(  # <- finding
        Clouds(args.clouds, points=64), batch_size=12, shuffle=True, num_workers=16, persistent_workers=True
    )
    model = PointNet()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    for epoch in range(args.epochs):
        right = 0
        for points, labels in loader:
            output = model(points)
            loss = nn.functional.cross_entropy(output, labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            right += (output.argmax(1) == labels).sum().item()
        print(f"epoch {epoch}: {right / args.clouds:.1%} right")


if __name__ == "__main__":
    main()
