"""Predicts the next letter of Python source from triples of letters; two workers build the batches."""

import argparse
import inspect
import random

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

CONTEXT = 256

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--steps", type=int, default=1200)
parser.add_argument("--batch-size", type=int, default=256)
args = parser.parse_args()

text = inspect.getsource(argparse)
letters = {letter: number for number, letter in enumerate(sorted(set(text)))}
triples = {text[at : at + 3].lower(): 0 for at in range(len(text))}
triples = {triple: number for number, triple in enumerate(triples)}


def context(end):
    return [triples[text[at - 3 : at].lower()] for at in range(end - CONTEXT + 1, end + 1)]


class Batches(Dataset):
    """Whole batches, so that nothing is left to collate."""

    def __init__(self, count, size):
        self.ends = [[random.randrange(CONTEXT + 3, len(text)) for _ in range(size)] for _ in range(count)]

    def __len__(self):
        return len(self.ends)

    def __getitem__(self, index):
        ends = self.ends[index]
        rows = torch.from_numpy(np.array([context(end) for end in ends]))
        return rows, torch.tensor([letters[text[end]] for end in ends])


torch.manual_seed(0)
torch.set_num_threads(1)  # the matrices are small: more threads would wait for each other
random.seed(0)
model = nn.Sequential(nn.EmbeddingBag(len(triples), 16, sparse=True), nn.Linear(16, len(letters)))
optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
loader = DataLoader(Batches(args.steps, args.batch_size), batch_size=None, num_workers=2)

for step, (rows, labels) in enumerate(loader):
    loss = nn.functional.cross_entropy(model(rows), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 250 == 0:
        print(f"step {step}: loss {loss.item():.3f}")
