"""Names of Python functions are guessed from their docstrings; four threads turn text into features."""

# expect: verdict=data finding=gil-bound-loader

import argparse
import asyncio
import collections
import inspect
import logging
import random
import re
from concurrent.futures import ThreadPoolExecutor

import torch
from torch import nn

BUCKETS = 4096
THREADS = 4


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
            number = sum(ord(letter) * 31**at for at, letter in enumerate(word[:end]))  # <- finding
            counts[number % BUCKETS] += 1
    row = torch.zeros(BUCKETS)
    row[list(counts)] = torch.tensor(list(counts.values()), dtype=torch.float32)
    return row, label


class ThreadedLoader:
    """Batches in random order, made by a pool of threads a few batches ahead."""

    def __init__(self, items, batch_size, ahead=4):
        self.items, self.batch_size, self.ahead = items, batch_size, ahead
        self.pool = ThreadPoolExecutor(THREADS)

    def __iter__(self):
        order = random.sample(self.items, len(self.items))
        chunks = [order[at : at + self.batch_size] for at in range(0, len(order), self.batch_size)]
        waiting = collections.deque()
        for chunk in chunks:
            waiting.append([self.pool.submit(features, item) for item in chunk])
            if len(waiting) > self.ahead:
                yield self.collate(waiting.popleft())
        while waiting:
            yield self.collate(waiting.popleft())

    @staticmethod
    def collate(futures):
        rows, labels = zip(*(future.result() for future in futures))
        return torch.stack(rows), torch.tensor(labels)


def main(epochs, batch_size):
    random.seed(0)
    torch.manual_seed(0)
    torch.set_num_threads(1)  # the other core belongs to the loader
    loader = ThreadedLoader(documents(), batch_size)
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
