"""Tells how many updates a GradScaler left out once its scale had settled: SkippedUpdateFacts."""

from __future__ import annotations

import numpy as np

from perfdoctor.facts.registry import fact
from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.measured import Marker
from perfdoctor.runs.types import RankRecords
from perfdoctor.wire.step_rows import ROLLED_UP, SKIPPED

# Updates that are left out of account: a scaler begins with 2^16, which sixteen skipped ones halve down to 1,
# some others between them.
SETTLING = 50


@dataclass(frozen=True)
class SkippedUpdateFacts:
    """Updates behind the first ones, as far as each has a row of its own."""

    updates: int
    skipped: int

    @property
    def share(self) -> float:
        """Of those updates, how many were left out."""
        return self.skipped / self.updates if self.updates else 0.0


@fact
def skipped_update_facts(rank: RankRecords) -> SkippedUpdateFacts | None:
    """What was left out behind the first updates, or None where nothing was or the run ended before."""
    rows = rank.steps
    if rows is None:
        return None
    updates = rows["flags"][rows["marker"] == Marker.UPDATE]
    # a row of many updates only says that one of them was left out
    settled = updates[SETTLING:][(updates[SETTLING:] & ROLLED_UP) == 0]
    skipped = int(np.count_nonzero(settled & SKIPPED))
    return SkippedUpdateFacts(len(settled), skipped) if skipped else None
