"""How many samples a step trains on: what loaders deliver, or without one what a model is given."""

from __future__ import annotations

from collections import deque
from typing import Any, Deque, Optional, Tuple

UNSETTLED_MAX = 64  # pending batches that can be counted again: no loader runs further ahead


def is_single(batch: Any) -> bool:
    """Whether what a model is given is one sample, without a dimension of samples: numbers in a row.

    Such as what a policy observes. Indices in a row are a sample each.
    """
    return bool(batch.dim() == 1 and batch.is_floating_point())


class SampleCount:
    """Samples that were delivered and not yet trained on.

    A loader that does not tell how large its batches are leaves it to the model in which dimension samples
    lie: batches that come before the model is called first are counted again then.
    """

    def __init__(self) -> None:
        self.pending = 0
        self.loader_delivers = False
        self.of_one = False  # the last batch is of a loader that puts one item into each
        self.evaluated = False  # a module in eval mode was called since the last batch or backward
        self.plain = False  # every batch is known to hold its samples in the first dimension
        self.dimension: Optional[int] = 0  # of samples, in batches whose loader tells nothing; None: unknown
        self.settled = False  # the first model was called
        self.told = False  # a model tells the dimension
        self.loader_tells = False  # that samples lie in the second dimension of what it delivers
        self.sizes: Optional[Tuple[int, int]] = None  # the first two of the last batch, if no loader tells
        # Pending batches: as counted, by their second dimension, and where nothing tells.
        self.unsettled: Deque[Tuple[int, int, int]] = deque(maxlen=UNSETTLED_MAX)

    def take(self) -> int:
        """What was delivered and not yet counted."""
        count, self.pending = self.pending, 0
        self.evaluated = False
        return count

    def counted(self, count: int, sizes: Tuple[int, int], is_bounded: bool) -> int:
        """The samples of a batch that a loader counts so many in, without telling in which dimension.

        `is_bounded`: it knows how many there are at most.
        """
        told = count, sizes[1], count if is_bounded else 0
        if not self.settled:
            self.unsettled.append(told)
            return count
        return told[2 if self.dimension is None else self.dimension]

    def settle(self, dimension: Optional[int]) -> None:
        """The dimension of the samples is known now, or known to be unknown to one more model."""
        if self.told and dimension is None:
            return
        self.told = dimension is not None
        left, again = self.pending, 0
        for told in reversed(self.unsettled):  # older ones may have been trained on since
            if not 0 < told[0] <= left:
                break
            left -= told[0]
            again += told[2 if dimension is None else dimension]
        self.pending = left + again
        self.dimension = dimension
        self.be_plain()

    def be_plain(self) -> None:
        """A model was called, with such a batch or with something else."""
        self.settled = True
        self.unsettled.clear()
        self.plain = self.dimension == 0 and not self.loader_tells

    def evaluate(self) -> None:
        """The pending batches were no training batches."""
        self.pending, self.evaluated = 0, False
        self.unsettled.clear()
