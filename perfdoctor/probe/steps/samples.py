"""How many samples a step trains on: what loaders deliver, or without one what a model is given."""

from __future__ import annotations


class SampleCount:
    """Samples that were delivered and not yet trained on."""

    def __init__(self) -> None:
        self.pending = 0
        self.loader_delivers = False
        self.evaluated = False  # a module in eval mode was called since the last batch or backward

    def take(self) -> int:
        """What was delivered and not yet counted."""
        count, self.pending = self.pending, 0
        self.evaluated = False
        return count
