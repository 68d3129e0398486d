"""Picks events by their names; a name is looked at once, however many events have it."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from perfdoctor.trace.parse.columns import Flags, Ints


def events_named(names: Sequence[str], column: Ints, fits: Callable[[str], object]) -> Flags:
    """(events,) bool: those whose name fits. `column` holds the number of each event's name."""
    present = np.zeros(len(names), bool)
    present[column] = True
    chosen = np.zeros(len(names), bool)
    for number in np.flatnonzero(present).tolist():
        chosen[number] = bool(fits(names[number]))
    return chosen[column]
