"""Complaints sorted by department: the vocabulary is read once, before the first item."""

import argparse
import json
import random
import tempfile
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

WORDS = 24000
BUCKETS = 1000  # words of one bucket share a row of the embedding
LENGTH = 32
DEPARTMENTS = 4


def write_vocabulary(path):
    path.write_text(json.dumps({f"word{number}": number for number in range(WORDS)}))


class Complaints(Dataset):
    """Texts whose words lean towards their department's part of the vocabulary."""

    def __init__(self, count, vocabulary):
        draw = random.Random(0)
        with open(vocabulary) as file:
            self.numbers = json.load(file)
        self.labels = [draw.randrange(DEPARTMENTS) for _ in range(count)]
        self.texts = [self.write(draw, label) for label in self.labels]

    def write(self, draw, label):
        part = WORDS // DEPARTMENTS
        own = [draw.randrange(label * part, (label + 1) * part) for _ in range(LENGTH // 4)]
        words = own + [draw.randrange(WORDS) for _ in range(LENGTH - len(own))]
        return " ".join(f"word{number}" for number in draw.sample(words, LENGTH))

    def __len__(self):
        return len(self.texts)

    def __getitem__(self, index):
        ids = [self.numbers[word] * BUCKETS // WORDS for word in self.texts[index].split()]
        return torch.tensor(ids), self.labels[index]


class Sorter(nn.Module):
    def __init__(self):
        super().__init__()
        self.words = nn.EmbeddingBag(BUCKETS, 16)
        self.rest = nn.Sequential(nn.Linear(16, 32), nn.ReLU(), nn.Linear(32, DEPARTMENTS))

    def forward(self, ids):
        return self.rest(self.words(ids))


def main(args):
    torch.set_num_threads(1)  # the model is small
    with tempfile.TemporaryDirectory() as folder:
        vocabulary = Path(folder) / "vocabulary.json"
        write_vocabulary(vocabulary)
        loader = DataLoader(Complaints(args.texts, vocabulary), batch_size=16, shuffle=True)
        model = Sorter()
        optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
        for epoch in range(args.epochs):
            total = 0.0
            for ids, labels in loader:
                loss = nn.functional.cross_entropy(model(ids), labels)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                total += loss.item()
            print(f"epoch {epoch}: loss {total / len(loader):.3f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--texts", type=int, default=960)
    parser.add_argument("--epochs", type=int, default=4)
    main(parser.parse_args())
