"""Names of Python functions are guessed from their docstrings; two workers turn text into features."""

import argparse
import asyncio
import collections
import inspect
import logging
import random
import re

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

BUCKETS = 4096


def documents():
    """Passages of source code, and the module that each of them comes from."""
    found = []
    for label, module in enumerate((argparse, asyncio.base_events, inspect, logging)):
        lines = inspect.getsource(module).splitlines()
        found += [(" ".join(lines[at : at + 12]), label) for at in range(0, len(lines) - 12, 4)]
    return found


def features(document):
    """Counts of the words and of their first letters, hashed into a fixed number of buckets."""
    text, label = document
    counts = collections.Counter()
    for word in re.findall(r"[a-z_]+", text.lower()):
        for end in range(1, len(word) + 1):
            number = sum(ord(letter) * 31**at for at, letter in enumerate(word[:end]))
            counts[number % BUCKETS] += 1
    row = torch.zeros(BUCKETS)
    row[list(counts)] = torch.tensor(list(counts.values()), dtype=torch.float32)
    return row, label


class Documents(Dataset):
    """Documents as features, for a DataLoader to spread over its workers."""

    def __init__(self):
        self.items = documents()

    def __len__(self):
        return len(self.items)

    def __getitem__(self, index):
        return features(self.items[index])


def main(epochs, batch_size):
    random.seed(0)
    torch.manual_seed(0)
    torch.set_num_threads(1)  # the other core belongs to the workers
    loader = DataLoader(Documents(), batch_size=batch_size, shuffle=True, num_workers=2)
    model = nn.Sequential(nn.Linear(BUCKETS, 256), nn.ReLU(), nn.Linear(256, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for epoch in range(epochs):
        for x, y in loader:
            loss = nn.functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch}: loss {loss.item():.3f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--batch-size", type=int, default=32)
    args = parser.parse_args()
    main(args.epochs, args.batch_size)
