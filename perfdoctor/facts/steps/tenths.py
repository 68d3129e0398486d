"""Tells how steady a run is: its phases in each tenth of it, and how far step time wanders."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from perfdoctor.facts.registry import fact
from perfdoctor.facts.steps.boundaries import Bools, Floats, Ints, Steps
from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.measured import PAUSES, Phase

TENTHS = 10  # a burst of a starved loader evens out within a tenth of a run
SETTLING = 0.1  # of the steps may warm up before steadiness is judged


@dataclass(frozen=True)
class PhaseTenths:
    """The share of each phase in each tenth of the run, in order. Those of one tenth add up to 1.

    Validation and checkpoints come in lumps: each tenth has the part of them that its steps have of all.
    """

    shares: tuple[Mapping[Phase, float], ...]


@fact
def phase_tenths(steps: Steps) -> PhaseTenths | None:
    """The tenths of the run after warm-up, or None where it has too few rows to be cut in ten."""
    rows, weight, edges = _cut(steps)
    if edges is None:
        return None
    seconds = {phase: _sums(values[rows], edges) for phase, values in steps.phases.items()}
    part = _sums(weight, edges) / weight.sum()
    seconds |= {phase: seconds[phase].sum() * part for phase in PAUSES}
    whole = np.sum(list(seconds.values()), axis=0)
    if np.any(whole <= 0):
        return None
    return PhaseTenths(
        tuple(
            {phase: float(values[tenth] / whole[tenth]) for phase, values in seconds.items()}
            for tenth in range(TENTHS)
        )
    )


def drift(steps: Steps) -> float:
    """The spread of the tenths' mean steps over their mean, lumps left out; 0 where they are too few."""
    rows, weight, edges = _cut(steps)
    if edges is None:
        return 0.0
    seconds = (steps.seconds - sum(steps.phases[phase] for phase in PAUSES))[rows]
    means = _sums(seconds, edges) / _sums(weight, edges)
    mean = float(means.mean())
    return float(means.std()) / mean if mean > 0 else 0.0


def timed(steps: Steps) -> Bools:
    """The entries whose time counts: those that no profiler window disturbed, or all if each one was."""
    return ~steps.disturbed if np.any(~steps.disturbed) else np.ones(len(steps.weight), dtype=bool)


def _cut(steps: Steps) -> tuple[Ints, Floats, Ints | None]:
    """The timed rows after warm-up, the steps that each stands for, and where tenths begin, if there are."""
    rows = np.flatnonzero(timed(steps))
    weight = steps.weight[rows]
    settled = int(np.searchsorted(np.cumsum(weight), SETTLING * weight.sum()))
    rows, weight = rows[settled:], weight[settled:]
    if len(rows) < TENTHS:
        return rows, weight, None
    return rows, weight, np.linspace(0, len(rows), TENTHS + 1).astype(int)[:-1]


def _sums(values: Floats, edges: Ints) -> Floats:
    return np.asarray(np.add.reduceat(values, edges))
