"""Trials: the original and its variants executed in turns, measured and decided."""

from __future__ import annotations

from perfdoctor.trial import Trial
from perfdoctor.trials.asked import Asked, Progress

__all__ = ["Asked", "Progress", "run", "scale", "walk"]


def run(asked: Asked, progress: Progress) -> Trial:
    """Measure the variants that were asked for: see `conduct.run`."""
    from perfdoctor.trials import conduct  # here: help and lists of tweaks do without numpy and psutil

    return conduct.run(asked, progress)


def scale(asked: Asked, progress: Progress) -> Trial:
    """Measure the training with several numbers of ranks: see `scaling.scale`."""
    from perfdoctor.trials import scaling

    return scaling.scale(asked, progress)


def walk(asked: Asked, progress: Progress) -> Trial:
    """Try what a run advises, and keep what helps: see `conduct.walk`."""
    from perfdoctor.trials import conduct

    return conduct.walk(asked, progress)
