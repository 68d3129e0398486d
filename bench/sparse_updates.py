"""What an update of an embedding table costs: dense, fused, and of the rows that a batch looked up.

    python bench/sparse_updates.py [--rounds 30]

Adam and SparseAdam, with one thread and with all. The last two columns are what the tip on dense gradients of
embeddings reckons with: the time of a row that was looked up, by measurement and by its constants.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable

import torch
from rich.console import Console
from rich.table import Table

from perfdoctor.tips.dense_embedding_gradients import ELEMENT_S, ROW_S

# (rows of the table, elements of a row, rows that a batch looks up, how often each)
SIZES = (
    (40_000, 32, 2_048, 4),
    (40_000, 32, 8_192, 1),
    (200_000, 64, 2_048, 1),
    (200_000, 64, 8_192, 1),
    (1_000_000, 16, 1_024, 1),
    (8_000, 128, 512, 1),
)
HEADINGS = ("threads", "rows", "elements", "looked up", "dense, ms", "fused, ms", "sparse, ms", "a row, us")
OPTIMIZERS: dict[str, Callable[[torch.nn.Embedding], torch.optim.Optimizer]] = {
    "dense": lambda table: torch.optim.Adam(table.parameters()),
    "fused": lambda table: torch.optim.Adam(table.parameters(), fused=True),
    "sparse": lambda table: torch.optim.SparseAdam(table.parameters()),
}
QUIET = 0.25  # of the rounds are less disturbed than this one


def update_s(kind: str, rows: int, elements: int, indices: torch.Tensor, rounds: int) -> float:
    """Seconds of one step of the optimizer; the forward and backward before it are not timed."""
    table = torch.nn.Embedding(rows, elements, sparse=kind == "sparse")
    optimizer = OPTIMIZERS[kind](table)
    seconds = []
    for _ in range(rounds + 1):  # the first one makes the state
        optimizer.zero_grad()
        table(indices).sum().backward()
        begin_s = time.perf_counter()
        optimizer.step()
        seconds.append(time.perf_counter() - begin_s)
    return sorted(seconds[1:])[int(QUIET * rounds)]


def main() -> None:
    """Measure every size, and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=30, help="updates of each kind")
    rounds = parser.parse_args().rounds
    table = Table(*HEADINGS, "by the tip, us")
    for threads in sorted({1, os.cpu_count() or 1}):
        torch.set_num_threads(threads)
        for rows, elements, found, times in SIZES:
            indices = torch.randperm(rows)[:found].repeat(times)
            took_s = {kind: update_s(kind, rows, elements, indices, rounds) for kind in OPTIMIZERS}
            figures = (f"{1e3 * seconds:.2f}" for seconds in took_s.values())
            each_us = (1e6 * took_s["sparse"] / found, 1e6 * (ROW_S + ELEMENT_S * elements))
            sizes = (f"{threads}", f"{rows:,}", f"{elements}", f"{found:,} x {times}")
            table.add_row(*sizes, *figures, *(f"{value:.2f}" for value in each_us))
    Console(width=120).print(table)


if __name__ == "__main__":
    main()
