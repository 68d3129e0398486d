"""Digits are sets of strokes' points, of different sizes: the model takes the sets of a batch one by one."""

# expect: verdict=compute finding=items-one-by-one

import argparse

import torch
from sklearn.datasets import load_digits
from torch import nn


def point_sets(digits):
    """For each digit the place and the brightness of its pixels that are not black."""
    sets = []
    for image in torch.from_numpy(digits.images).float() / 16:
        places = image.nonzero()
        brightness = image[places[:, 0], places[:, 1]]
        sets.append(torch.cat([places / 8, brightness[:, None]], dim=1))
    return sets


class SetClassifier(nn.Module):
    def __init__(self, width=48):
        super().__init__()
        self.points = nn.Sequential(nn.Linear(3, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU())
        self.head = nn.Sequential(nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 10))

    def forward(self, sets):
        scores = []
        for points in sets:  # <- finding
            pooled = self.points(points).mean(0)
            scores.append(self.head(pooled))
        return torch.stack(scores)


def train(steps, batch_size=64):
    digits = load_digits()
    sets = point_sets(digits)
    labels = torch.from_numpy(digits.target)
    model = SetClassifier()
    optimizer = torch.optim.Adam(model.parameters(), lr=2e-3)
    for step in range(steps):
        chosen = torch.randint(len(sets), (batch_size,))
        scores = model([sets[index] for index in chosen.tolist()])
        loss = nn.functional.cross_entropy(scores, labels[chosen])
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
