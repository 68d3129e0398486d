"""What dense gradients of an embedding table cost: their update, and backward, which fills and adds them up.

    python bench/sparse_updates.py [--rounds 30]

Each optimizer with dense gradients and with sparse ones, with one thread and with all. "A row" is the time of
one that was looked up, by measurement and by the constants of the tip on dense gradients of embeddings; so is
"a further look-up", whose gradient is as large as the table, and is added to the others.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable, Sequence

import torch
from rich.console import Console
from rich.table import Table

from perfdoctor.tips.dense_embedding_gradients import (
    ELEMENT_S,
    FURTHER_LARGE_S,
    FURTHER_S,
    MAPPED_BYTES,
    OF_SPARSE_ADAM,
    ROW_S,
)

# (rows of the table, elements of a row, rows that a batch looks up, how often each)
SIZES = (
    (40_000, 32, 2_048, 4),
    (40_000, 32, 8_192, 1),
    (200_000, 64, 2_048, 1),
    (200_000, 64, 8_192, 1),
    (1_000_000, 16, 1_024, 1),
    (8_000, 128, 512, 1),
)
Kind = Callable[[torch.nn.Embedding], torch.optim.Optimizer]
DENSE: dict[str, Kind] = {
    "Adam": lambda table: torch.optim.Adam(table.parameters()),
    "Adam, fused": lambda table: torch.optim.Adam(table.parameters(), fused=True),
    "Adagrad": lambda table: torch.optim.Adagrad(table.parameters()),
    "SGD": lambda table: torch.optim.SGD(table.parameters(), lr=0.1),
}
SPARSE: dict[str, Kind] = {
    "SparseAdam": lambda table: torch.optim.SparseAdam(table.parameters()),
    "Adagrad": DENSE["Adagrad"],
    "SGD": DENSE["SGD"],
}
CALLS = 4
QUIET = 0.25  # of the rounds are less disturbed than this one


def took_s(
    kind: Kind, rows: int, elements: int, indices: Sequence[torch.Tensor], rounds: int, sparse: bool = False
) -> tuple[float, float]:
    """Seconds of a backward and of the optimizer's step behind it."""
    table = torch.nn.Embedding(rows, elements, sparse=sparse)
    optimizer = kind(table)
    backward, update = [], []
    for _ in range(rounds + 1):  # the first one makes the state
        optimizer.zero_grad()
        loss = sum((table(each).sum() for each in indices), start=torch.zeros(()))
        begin_s = time.perf_counter()
        loss.backward()
        between_s = time.perf_counter()
        optimizer.step()
        backward.append(between_s - begin_s)
        update.append(time.perf_counter() - between_s)
    quiet = int(QUIET * rounds)
    return sorted(backward[1:])[quiet], sorted(update[1:])[quiet]


def updates(rounds: int) -> Table:
    """Milliseconds of updates, and microseconds of a row."""
    sparse = [f"sparse {name}, a row, us (the tip)" for name in SPARSE]
    table = Table("threads", "rows", "elements", "looked up", *(f"{name}, ms" for name in DENSE), *sparse)
    for threads in sorted({1, os.cpu_count() or 1}):
        torch.set_num_threads(threads)
        for rows, elements, found, times in SIZES:
            indices = [torch.randperm(rows)[:found].repeat(times)]
            dense = (took_s(kind, rows, elements, indices, rounds)[1] for kind in DENSE.values())
            rows_us = []
            for name, kind in SPARSE.items():
                measured_us = 1e6 * took_s(kind, rows, elements, indices, rounds, sparse=True)[1] / found
                by_tip_us = 1e6 * OF_SPARSE_ADAM.get(name, 1.0) * (ROW_S + ELEMENT_S * elements)
                rows_us.append(f"{measured_us:.2f} ({by_tip_us:.2f})")
            sizes = (f"{threads}", f"{rows:,}", f"{elements}", f"{found:,} x {times}")
            table.add_row(*sizes, *(f"{1e3 * seconds:.2f}" for seconds in dense), *rows_us)
    return table


def backwards(rounds: int) -> Table:
    """Milliseconds of backwards through one look-up and through several, and what a further one costs."""
    further = "a further look-up, ns a byte (the tip)"
    table = Table("threads", "rows", "elements", "1 look-up, ms", f"{CALLS} look-ups, ms", further)
    for threads in sorted({1, os.cpu_count() or 1}):
        torch.set_num_threads(threads)
        for rows, elements, found, _ in SIZES:
            indices = [torch.randperm(rows)[:found] for _ in range(CALLS)]
            one_s, _ = took_s(DENSE["SGD"], rows, elements, indices[:1], rounds)
            all_s, _ = took_s(DENSE["SGD"], rows, elements, indices, rounds)
            size = rows * elements * 4
            each_ns = 1e9 * (all_s - one_s) / (CALLS - 1) / size
            by_tip_ns = 1e9 * (FURTHER_LARGE_S if size >= MAPPED_BYTES else FURTHER_S)[1]
            sizes = (f"{threads}", f"{rows:,}", f"{elements}")
            table.add_row(
                *sizes, f"{1e3 * one_s:.2f}", f"{1e3 * all_s:.2f}", f"{each_ns:.2f} ({by_tip_ns:.2f})"
            )
    return table


def main() -> None:
    """Measure every size, and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=30, help="updates of each kind")
    rounds = parser.parse_args().rounds
    for table in (updates(rounds), backwards(rounds)):
        Console(width=160).print(table)


if __name__ == "__main__":
    main()
