"""How many nodes of autograd's graph a step makes, by the number that torch gives the next one.

Each operation of a forward pass that is differentiated makes one, in the thread that calls it. Reading the
number takes less than a microsecond, so it is known before the first window opens.
"""

from __future__ import annotations

from typing import Any


class GraphNodes:
    """The nodes that the calling thread makes, from one reading to the next."""

    def __init__(self, torch: Any) -> None:
        self._next = getattr(torch.autograd, "_get_sequence_nr", lambda: 0)  # private: it may go
        self._base = 0

    def rest(self) -> None:
        """They are counted anew from here."""
        self._base = self._next()

    def per_step(self, steps: int) -> float:
        """Nodes of one of the `steps` steps since `rest`; 0 where torch does not tell."""
        return max(0, self._next() - self._base) / max(1, steps)
