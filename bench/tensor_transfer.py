"""What a batch takes on its way from a worker, by the number of its tensors, at equal bytes.

    python bench/tensor_transfer.py [--rounds 30]

A worker is ahead and has batches of several sizes ready, whole or cut into equal tensors. "take" is
`next(...)` in the training process, "free" is letting go of the batch before; both are medians. The last
column is the share of "take" that goes when all tensors of one field become one.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator
from statistics import median

import torch
from rich.console import Console
from rich.table import Table
from torch.utils.data import DataLoader, IterableDataset

SIZES = (1 << 16, 1 << 20, 1 << 23)  # bytes of a batch
# (tensors, those left of them): what is collated to one, to few fields, and none
COUNTS = ((1, 1), (9, 9), (64, 1), (256, 4), (550, 9))
AHEAD_S, AHEAD_TENSOR_S = 0.02, 0.0004  # waited for the worker, and for each tensor that it packs
HEADINGS = ("sharing", "bytes", "tensors", "take, ms", "free, ms", "goes")


class Batches(IterableDataset[list[torch.Tensor]]):
    """Batches of so many tensors, which nobody has touched before."""

    def __init__(self, size: int, tensors: int) -> None:
        self.size, self.tensors = size, tensors

    def __iter__(self) -> Iterator[list[torch.Tensor]]:
        while True:
            yield [torch.ones(self.size // self.tensors // 4) for _ in range(self.tensors)]


def costs_s(size: int, tensors: int, rounds: int) -> tuple[float, float]:
    """Seconds of taking a batch and of letting go of the one before, the medians."""
    taking, freeing, kept = [], [], []
    batches = iter(DataLoader(Batches(size, tensors), batch_size=None, num_workers=1))
    for _ in range(rounds + 1):  # the first batch waits for the worker to start
        time.sleep(AHEAD_S + AHEAD_TENSOR_S * tensors)
        begin_s = time.perf_counter()
        kept.clear()
        freed_s = time.perf_counter()
        kept.append(next(batches))
        taking.append(time.perf_counter() - freed_s)
        freeing.append(freed_s - begin_s)
    return median(taking[1:]), median(freeing[1:])


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rounds", type=int, default=30)
    rounds = parser.parse_args().rounds
    torch.set_num_threads(1)
    table = Table(*HEADINGS)
    for sharing in ("file_descriptor", "file_system"):
        torch.multiprocessing.set_sharing_strategy(sharing)
        for size in SIZES:
            taking_s: dict[int, float] = {}
            for tensors, left in COUNTS:
                taking_s[tensors], freeing_s = costs_s(size, tensors, rounds)
                few_s = taking_s[left] if left in taking_s else costs_s(size, left, rounds)[0]
                shown = (f"{seconds * 1e3:.2f}" for seconds in (taking_s[tensors], freeing_s))
                table.add_row(
                    sharing, f"{size:,}", str(tensors), *shown, f"{1 - few_s / taking_s[tensors]:.0%}"
                )
    Console().print(table)


if __name__ == "__main__":
    main()
