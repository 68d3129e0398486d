"""Which steps worker processes start in, and how much longer these train for it.

A fork copies page tables, and the pages that either side writes to afterwards; a new process imports, and
takes a core. So the first step of such an epoch is slower beyond its wait for the first batch.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from perfdoctor.facts.steps.boundaries import Bools, Ints, Steps
from perfdoctor.model.measured import Phase
from perfdoctor.wire.events.loaders import EpochEvent

TRAINING = (Phase.FORWARD, Phase.BACKWARD, Phase.OPTIMIZER)


def starting(epochs: Sequence[EpochEvent], begin_ns: Ints, end_ns: Ints) -> Bools:
    """Which of these stretches hold the first batch of an epoch whose workers were not there before."""
    known: set[int] = set()
    delivered_ns = []
    for epoch in sorted(epochs, key=lambda each: each.begin_ns):
        if not known.issuperset(epoch.workers):
            delivered_ns.append(epoch.begin_ns + epoch.startup_ns + epoch.first_wait_ns)
        known.update(epoch.workers)
    before, after = np.searchsorted(np.sort(delivered_ns), (begin_ns, end_ns))
    return np.asarray(after > before)


def slowed_s(epochs: Sequence[EpochEvent], steps: Steps) -> float:
    """Seconds that a step trains longer, in the mean, if workers start again in it."""
    again = starting(epochs, steps.begin_ns, steps.end_ns) & ~steps.disturbed & (steps.weight == 1)
    again[:1] = False  # the first step is slower for other reasons
    usual = ~again & ~steps.disturbed
    if not again.any() or not usual.any():
        return 0.0
    seconds = np.sum([steps.phases[phase] / steps.weight for phase in TRAINING], axis=0)
    return max(0.0, float(seconds[again].mean() - np.median(seconds[usual])))
