"""What distances and similarities of all pairs cost by broadcasting, beside products of matrices and cdist.

    python bench/broadcast_distances.py

Forward and backward, with one and with two threads: the median time of the second way as a share of that
of broadcasting. `perfdoctor/tips/broadcast_distances.py` promises by these figures.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional

ROUNDS = 7
SIZES = (
    (64, 512, 128),
    (256, 256, 64),
    (128, 1024, 16),
    (512, 512, 8),
    (32, 2048, 256),
)  # rows, rows, numbers
Way = Callable[[Tensor, Tensor], Tensor]
WAYS: dict[str, tuple[Way, Way]] = {
    "cosine": (
        lambda x, y: functional.cosine_similarity(x[:, None], y[None], dim=-1),
        lambda x, y: functional.normalize(x, dim=-1) @ functional.normalize(y, dim=-1).T,
    ),
    "product": (lambda x, y: (x[:, None] * y[None]).sum(-1), lambda x, y: x @ y.T),
    "squares": (
        lambda x, y: (x[:, None] - y[None]).pow(2).sum(-1),
        lambda x, y: x.square().sum(-1)[:, None] - 2 * x @ y.T + y.square().sum(-1),
    ),
    "distance": (lambda x, y: (x[:, None] - y[None]).norm(dim=-1), torch.cdist),
    "absolute": (lambda x, y: (x[:, None] - y[None]).abs().sum(-1), lambda x, y: torch.cdist(x, y, p=1)),
}


def seconds(way: Way, x: Tensor, y: Tensor) -> float:
    """The median time of forward and backward."""
    taken = []
    for _ in range(ROUNDS):
        x.grad = y.grad = None
        begin = time.perf_counter()
        way(x, y).square().mean().backward()
        taken.append(time.perf_counter() - begin)
    return statistics.median(taken)


def main() -> None:
    """Print a row for each size and number of threads."""
    torch.manual_seed(0)
    print("threads  rows  rows  numbers  " + "  ".join(WAYS))
    for threads in (1, 2):
        torch.set_num_threads(threads)
        for rows, others, width in SIZES:
            x, y = (torch.randn(count, width, requires_grad=True) for count in (rows, others))
            shares = [seconds(new, x, y) / seconds(old, x, y) for old, new in WAYS.values()]
            print(
                f"{threads:7} {rows:5} {others:5} {width:8}  "
                + "  ".join(f"{share:6.0%}" for share in shares)
            )


if __name__ == "__main__":
    main()
