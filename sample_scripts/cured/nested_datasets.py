"""Spectra labelled round by round: one flat subset of the base data a round."""

import argparse

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, Subset

CHANNELS = 96
KINDS = 10


class Spectra(Dataset):
    """Lines of elements over noise, with the mineral that an expert would name."""

    def __init__(self, count):
        draw = np.random.default_rng(0)
        lines = draw.random((KINDS, CHANNELS), dtype=np.float32) ** 8
        self.labels = draw.integers(KINDS, size=count)
        self.spectra = lines[self.labels] + 2 * draw.random((count, CHANNELS), dtype=np.float32)

    def __len__(self):
        return len(self.labels)

    def __getitem__(self, index):
        return self.spectra[index], self.labels[index]


def collate(items):
    spectra, labels = zip(*items, strict=True)
    return torch.from_numpy(np.stack(spectra)), torch.from_numpy(np.array(labels))


def label(labelled, pool, chosen):
    """The chosen indices of the pool become labelled ones."""
    rest = np.setdiff1d(np.arange(len(pool)), chosen)
    return labelled + [pool[each] for each in chosen], [pool[each] for each in rest]


def main(args):
    torch.manual_seed(0)
    torch.set_num_threads(1)  # the model is small
    draw = np.random.default_rng(1)
    base = Spectra(args.items)
    labelled = list(range(args.first))
    pool = list(range(args.first, args.items))
    model = nn.Sequential(
        nn.Linear(CHANNELS, args.width), nn.GELU(), nn.Linear(args.width, args.width), nn.GELU(),
        nn.Linear(args.width, KINDS),
    )  # fmt: skip
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for number in range(args.rounds):
        items = Subset(base, labelled)
        loader = DataLoader(items, batch_size=128, shuffle=True, drop_last=True, collate_fn=collate)
        for spectra, labels in loader:
            loss = nn.functional.cross_entropy(model(spectra), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        labelled, pool = label(labelled, pool, draw.choice(len(pool), args.ask, replace=False))
        if number % 20 == 0:
            print(f"round {number}: {len(labelled)} labelled, loss {loss.item():.3f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--items", type=int, default=20_000)
    parser.add_argument("--first", type=int, default=1_000)
    parser.add_argument("--rounds", type=int, default=180)
    parser.add_argument("--ask", type=int, default=16)
    parser.add_argument("--width", type=int, default=256)
    main(parser.parse_args())
