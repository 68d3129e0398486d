"""What scores of targets that a loss ignores cost: the figures of `perfdoctor/tips/ignored_targets.py`.

    python bench/ignored_targets.py

On one core: operations a second of the products of a head's backward, seconds for each element of hidden
states and scores, forward and backward against backward alone, and what stays of a small loss however few
positions count.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional

ROUNDS = 15
# Positions, width of the hidden states, classes.
WIDE = ((512, 256, 8_000), (512, 768, 8_000), (2_048, 512, 8_000), (256, 1_024, 30_000))
NARROW = ((2_048, 4, 4_000), (8_192, 4, 4_000), (8_192, 8, 1_000))  # next to no products
SMALL = ((8, 16, 10), (8, 64, 100), (8, 256, 1_000))
IGNORED = -100


class Head:
    """A head with as many positions, and a loss that ignores every second one."""

    def __init__(self, rows: int, width: int, classes: int) -> None:
        self.hidden = torch.randn(rows, width, requires_grad=True)
        self.weight = torch.randn(classes, width, requires_grad=True)
        self.targets = torch.randint(classes, (rows,))
        self.targets[::2] = IGNORED

    def of_all(self) -> Tensor:
        """The loss by the scores of all positions."""
        return functional.cross_entropy(functional.linear(self.hidden, self.weight), self.targets)

    def of_counted(self) -> Tensor:
        """The same by the scores of those that count."""
        counts = self.targets != IGNORED
        scores = functional.linear(self.hidden[counts], self.weight)
        return functional.cross_entropy(scores, self.targets[counts])


def seconds(loss: Callable[[], Tensor]) -> tuple[float, float]:
    """Forward, and backward, of CPU time: the shortest of each."""
    forward, backward = [], []
    for _ in range(ROUNDS):
        begin = time.process_time()
        value = loss()
        between = time.process_time()
        value.backward()
        backward.append(time.process_time() - between)
        forward.append(between - begin)
    return min(forward), min(backward)


def main() -> None:
    """Measure heads of several sizes."""
    torch.set_num_threads(1)
    for rows, width, classes in NARROW:
        _, backward_s = seconds(Head(rows, width, classes).of_all)
        print(
            f"{rows} x {width} x {classes}: {backward_s / (rows * (width + classes)) * 1e9:.2f} ns an element"
        )
    for rows, width, classes in WIDE:
        forward_s, backward_s = seconds(Head(rows, width, classes).of_all)
        rate = 2 * 2 * rows * width * classes / backward_s
        print(
            f"{rows} x {width} x {classes}: at least {rate / 1e9:.0f}e9 operations a second; "
            f"with forward {1 + forward_s / backward_s:.2f} times as long as backward"
        )
    for rows, width, classes in SMALL:
        head = Head(rows, width, classes)
        all_s, counted_s = sum(seconds(head.of_all)), sum(seconds(head.of_counted))
        left_s = counted_s - all_s / 2
        print(f"{rows} x {width} x {classes}: {left_s * 1e3:.3f} ms stay, of {all_s * 1e3:.3f} ms")


if __name__ == "__main__":
    main()
