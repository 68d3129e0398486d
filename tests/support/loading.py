"""A small training whose losses tell whether its batches, and the random numbers beside them, are the same."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest

torch = pytest.importorskip("torch")

ITEMS = 40
BATCH = 4  # ten steps an epoch
EPOCHS = 5


class Pairs(torch.utils.data.Dataset):
    """Map-style: (input, target); counts how often items are prepared in this process."""

    def __init__(self) -> None:
        self.prepared = 0
        self.pairs = torch.randn(ITEMS, 5, generator=torch.Generator().manual_seed(1))

    def __len__(self) -> int:
        return len(self.pairs)

    def __getitem__(self, index: int) -> Any:
        self.prepared += 1
        return self.pairs[index, :4], self.pairs[index, 4:]


class Stream(torch.utils.data.IterableDataset):
    """Iterable: every worker goes through all of it."""

    def __iter__(self) -> Iterator[int]:
        return iter(range(12))


class Processes(torch.utils.data.Dataset):
    """Map-style: each item is the id of the process that prepared it."""

    def __len__(self) -> int:
        return ITEMS

    def __getitem__(self, index: int) -> int:
        return os.getpid()


def losses(dataset: Any = None, epochs: int = EPOCHS, **options: Any) -> list[float]:
    """The loss of each step. Dropout and shuffling draw from one generator, so that any further draw shows."""
    torch.manual_seed(0)
    dataset = Pairs() if dataset is None else dataset
    loader = torch.utils.data.DataLoader(dataset, batch_size=BATCH, shuffle=True, **options)
    layers = torch.nn.Linear(4, 8), torch.nn.Dropout(0.3), torch.nn.Linear(8, 1)
    model = torch.nn.Sequential(*layers)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    found = []
    for _ in range(epochs):
        for inputs, targets in loader:
            optimizer.zero_grad()
            loss = (model(inputs) - targets).square().mean()
            loss.backward()
            optimizer.step()
            found.append(loss.item())
    return found


def values(loader: Any) -> list[int]:
    """All values of a loader over whole numbers, in order."""
    return [value for batch in loader for value in batch.tolist()]
