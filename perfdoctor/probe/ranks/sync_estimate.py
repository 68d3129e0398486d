"""How long a backward pass waited for its gradient sync, where torch's account of it was not read.

The account says it exactly and costs 25 us to read. A pass that takes as long as the last ones tells nothing
new: of those, one in a few is read, and the time that a pass takes beyond what it took without waiting is its
wait. A pass longer than the recent least may have waited for a late rank, and is always read.
"""

from __future__ import annotations

from typing import Tuple

ALL_OF = 16  # passes of a model are read: torch keeps times of the first ten anyway
ONE_OF = 8  # later passes is read, however long it takes
LONGER = 1.1  # than the recent least: only passes of that length are estimated
LEAST_SHIFT = 8  # the recent least rises by its 256th part with each pass, until one is shorter
WEIGHT = 4  # of what was known, beside one more reading: as much as of three


class SyncEstimate:
    """The passes of one model. All times are in nanoseconds."""

    def __init__(self) -> None:
        self.passes = 0
        self.is_mixed = False  # some passes do not go through the model, which only the account tells
        self.is_usual = False  # the last pass took about as long as the shortest ones
        self.least = 0.0  # that a pass took recently
        self.lead = self.tail = (
            0  # from the pass's begin to the sync's, and from the sync's end to the pass's
        )
        self.rest = 0.0  # a usual pass without its wait
        self.owed = 0.0  # waits that came out below nothing: they are made up for, or noise would add up

    def must_read(self, took: int) -> bool:
        """Whether the account has to be read of a pass that took so long."""
        self.passes += 1
        least = self.least
        self.is_usual = least <= LONGER * took and took <= LONGER * least
        self.least = took if took < least or not least else least + least / (1 << LEAST_SHIFT)
        if self.is_usual and self.passes > ALL_OF and not self.is_mixed:
            return self.passes % ONE_OF == 0
        return True

    def learn(self, took: int, lead: int, tail: int, wait: int) -> None:
        """The account of that pass was read. Only usual passes tell what usual ones take."""
        rest = took - wait
        if self.is_usual and abs(rest - self.rest) < (LONGER - 1) * self.rest:
            self.rest += (rest - self.rest) / WEIGHT
        elif self.is_usual or not self.rest:
            self.rest = rest
        else:
            return
        self.lead, self.tail = lead, tail
        self.owed = 0.0

    def estimate(self, took: int) -> Tuple[int, int, int]:
        """(lead, tail, wait) of a pass whose account was not read."""
        wait = took - self.rest + self.owed
        self.owed = min(0.0, wait)
        lead = min(self.lead, took)
        tail = min(self.tail, took - lead)
        return lead, tail, max(0, min(int(wait), took - lead - tail))
