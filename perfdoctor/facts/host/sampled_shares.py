"""Tells which share of wall time stack samples stand for, beside the timers."""

from __future__ import annotations

import math

from perfdoctor.model.measured import Phase, StepFacts

SURELY = 2.0  # standard deviations of a share that was sampled: what is left beyond is no chance


def share_of(step: StepFacts, phase: Phase, samples: int, total: int) -> float:
    """The share of wall time that `samples` of `total`, all of a phase, stand for."""
    return sampled_share(phase, step.share(phase), samples, total)


def sampled_share(phase: Phase, timed: float, samples: int, total: int) -> float:
    """The same of some samples in a phase, for which timers say `timed`.

    The timers know better, but for what no wrapper is around: they charge what follows a forward pass to it,
    be it the loss or a log. There samples decide where they are plainly more than the timers tell.
    """
    if phase is not Phase.OTHER or not total:
        return timed
    sampled = samples / total
    return sampled if sampled - SURELY * math.sqrt(sampled * (1 - sampled) / total) > timed else timed
