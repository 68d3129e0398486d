"""What a copy of weights takes in new memory, and in memory that is there already.

    python bench/copies.py [--rounds 40]

Tensors of several sizes and numbers are copied as in each step of a training, a small product between any two
copies, with one thread and with all. The last column is the share of the time that goes; its medians come
last. They differ from run to run, as the allocator hands out memory again or maps new pages.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable
from statistics import median

import torch
from rich.console import Console
from rich.table import Table

from perfdoctor.tips.large_copies_every_step import IN_PLACE

# (tensors, elements of each): 4 MB to 160 MB in all
SIZES = ((12, 90_000), (100, 10_000), (40, 250_000), (4, 4_000_000), (150, 150_000), (1, 40_000_000))
HEADINGS = ("threads", "tensors", "elements", "copy", "new memory, ms", "same memory, ms", "goes")


def copy_s(copy: Callable[[], object], rounds: int) -> float:
    """Seconds of one copy, the median; a result lives until the next one, as a loop's variable does."""
    busy, seconds, kept = torch.randn(512, 512), [], None
    for _ in range(rounds + 1):  # the first one meets memory that nobody has touched
        busy.matmul(busy)
        begin_s = time.perf_counter()
        kept = copy()
        seconds.append(time.perf_counter() - begin_s)
    del kept
    return median(seconds[1:])


def copies_of(tensors: list[torch.Tensor]) -> dict[str, tuple[Callable[[], object], Callable[[], object]]]:
    """By its name, each copy in new memory and in the same memory."""
    kept = [torch.empty_like(one) for one in tensors]
    flat = torch.empty(sum(one.numel() for one in tensors))

    def in_place() -> None:
        for old, new in zip(kept, tensors, strict=True):
            old.copy_(new)

    return {
        "clone": (lambda: [one.clone() for one in tensors], in_place),
        "cat": (lambda: torch.cat(tensors), lambda: torch.cat(tensors, out=flat)),
    }


def main() -> None:
    """Measure every size, and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=40, help="copies of each kind")
    rounds = parser.parse_args().rounds
    table, gone = Table(*HEADINGS), {"clone": [], "cat": []}
    for threads in sorted({1, os.cpu_count() or 1}):
        torch.set_num_threads(threads)
        for number, elements in SIZES:
            tensors = [torch.randn(elements) for _ in range(number)]
            for name, copies in copies_of(tensors).items():
                new_s, same_s = (copy_s(copy, rounds) for copy in copies)
                goes = 1 - same_s / new_s
                gone[name].append(goes)
                figures = (f"{1e3 * new_s:.2f}", f"{1e3 * same_s:.2f}", f"{goes:.0%}")
                table.add_row(f"{threads}", f"{number}", f"{elements:,}", name, *figures)
    console = Console(width=120)
    console.print(table)
    medians = ", ".join(f"{name} {median(shares):.0%}" for name, shares in gone.items())
    console.print(f"medians: {medians}; the tip reckons with {IN_PLACE:.0%}")


if __name__ == "__main__":
    main()
