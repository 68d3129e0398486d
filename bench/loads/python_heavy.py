"""Steps whose data is made by much Python: rows of a data frame, regexes, characters, nested lists.

The loop trains for a number of seconds; without workers all of the Python runs in the thread that trains.
"""

import argparse
import random
import re
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

FEATURES = 16
ITEMS = 2_000_000  # more than any run comes to
WORD = re.compile(r"[a-z]+")
MINUTE = re.compile(r"(\d\d):(\d\d)")


class Rows(Dataset):
    """An item is read cell by cell from a data frame."""

    def __init__(self):
        import pandas

        numbers = random.Random(0)
        columns = {f"c{place}": [numbers.random() for _ in range(500)] for place in range(FEATURES)}
        self.frame = pandas.DataFrame(columns)

    def __len__(self):
        return ITEMS

    def __getitem__(self, index):
        row = self.frame.iloc[index % len(self.frame)]
        return torch.tensor([row[name] for name in self.frame.columns], dtype=torch.float32)


class Regexes(Dataset):
    """An item is a line of a log, searched with regular expressions."""

    def __init__(self):
        numbers = random.Random(0)
        self.lines = [
            " ".join(f"{numbers.randrange(24):02}:{numbers.randrange(60):02} {n} came" for n in range(40))
            for _ in range(200)
        ]

    def __len__(self):
        return ITEMS

    def __getitem__(self, index):
        line = self.lines[index % len(self.lines)]
        minutes = [60 * int(found[1]) + int(found[2]) for found in MINUTE.finditer(line)]
        words = [found.group().lower().capitalize() for found in WORD.finditer(line)]
        counts = minutes[:8] + [len(word) for word in words[:8]]
        return torch.tensor(counts, dtype=torch.float32) / 1440


class Characters(Dataset):
    """An item is a text that is taken character by character."""

    def __init__(self):
        letters = random.Random(0)
        self.texts = ["".join(letters.choice("abcdefgh .") for _ in range(2000)) for _ in range(200)]

    def __len__(self):
        return ITEMS

    @staticmethod
    def number(character):
        return ord(character) % FEATURES

    def __getitem__(self, index):
        counts = [0.0] * FEATURES
        for character in self.texts[index % len(self.texts)]:
            counts[self.number(character)] += 1.0
        return torch.tensor(counts) / 2000


class Lists(Dataset):
    """An item is a tree of lists that is walked by a function that calls itself."""

    def __init__(self):
        numbers = random.Random(0)
        self.trees = [self.tree(numbers, 5) for _ in range(100)]

    def tree(self, numbers, depth):
        return [self.tree(numbers, depth - 1) for _ in range(4)] if depth else numbers.random()

    def __len__(self):
        return ITEMS

    def total(self, tree):
        return sum(self.total(branch) for branch in tree) if isinstance(tree, list) else tree

    def __getitem__(self, index):
        total = self.total(self.trees[index % len(self.trees)])
        return torch.full((FEATURES,), total / 512)


KINDS = {"rows": Rows, "regexes": Regexes, "characters": Characters, "lists": Lists}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--kind", choices=KINDS, required=True)
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--seconds", type=float, default=24.0)
    args = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = nn.Sequential(nn.Linear(FEATURES, 32), nn.ReLU(), nn.Linear(32, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    end = time.perf_counter() + args.seconds
    for x in DataLoader(KINDS[args.kind](), batch_size=32, num_workers=args.workers):
        optimizer.zero_grad()
        loss = (model(x) - x.mean(1, keepdim=True)).square().mean()
        loss.backward()
        optimizer.step()
        if time.perf_counter() > end:
            break


if __name__ == "__main__":
    main()
