"""Texts as lines of JSON in files: each worker parses all of them and trains on every n-th."""

# expect: verdict=data finding=late-sharding

import argparse
import json
import random
import re
import tempfile
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

WORDS = 2_000
LENGTH = 100  # words of a text that are used


def write_files(folder, files, lines):
    dice = random.Random(0)
    for number in range(files):
        with open(folder / f"part{number:03d}.jsonl", "w", encoding="utf-8") as file:
            for _ in range(lines):
                words = [f"w{dice.randrange(WORDS)}" for _ in range(240)]
                file.write(
                    json.dumps({"text": " ".join(words), "words": words, "label": dice.randrange(4)}) + "\n"
                )


def clean(text):
    return re.findall(r"\w+", text.lower())


class Texts(IterableDataset):
    def __init__(self, folder):
        self.paths = sorted(folder.glob("*.jsonl"))
        self.ids = {f"w{number}": number for number in range(WORDS)}

    def read(self, paths):
        for path in paths:
            with open(path, encoding="utf-8") as file:
                for line in file:
                    entry = json.loads(line)
                    yield self.encode(clean(entry["text"])), entry["label"]

    def encode(self, words):
        return torch.tensor([self.ids[word] for word in words[:LENGTH]])

    def __iter__(self):
        info = get_worker_info()
        for number, sample in enumerate(self.read(self.paths)):  # <- finding
            if number % info.num_workers == info.id:
                yield sample


def fit(folder, epochs, batch_size):
    loader = DataLoader(Texts(folder), batch_size=batch_size, num_workers=2, persistent_workers=True)
    model = nn.Sequential(nn.EmbeddingBag(WORDS, 32), nn.ReLU(), nn.Linear(32, 4))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for epoch in range(epochs):
        losses = []
        for words, labels in loader:
            loss = nn.functional.cross_entropy(model(words), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.detach())
        print(f"epoch {epoch}: loss {torch.stack(losses).mean():.4f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=8)
    parser.add_argument("--lines", type=int, default=2_000)
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batch-size", type=int, default=64)
    args = parser.parse_args()
    torch.manual_seed(0)
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as name:
        write_files(Path(name), args.files, args.lines)
        fit(Path(name), args.epochs, args.batch_size)
