"""Trials: the original and its variants executed in turns, measured and decided.

A signal that ends a program ends the trial, and no more: it comes back with what was measured until then, and
`interrupted` set. Who has more to do after it looks at that first.
"""

from __future__ import annotations

from collections.abc import Callable

from perfdoctor import relay
from perfdoctor.trial import Trial
from perfdoctor.trials.asked import Asked, Interrupted, Progress

__all__ = ["Asked", "Interrupted", "Progress", "run", "scale", "walk"]


def run(asked: Asked, progress: Progress) -> Trial:
    """Measure the variants that were asked for: see `conduct.run`."""
    from perfdoctor.trials import conduct  # here: help and lists of tweaks do without numpy and psutil

    return _stoppable(conduct.run, asked, progress)


def scale(asked: Asked, progress: Progress) -> Trial:
    """Measure the training with several numbers of ranks: see `scaling.scale`."""
    from perfdoctor.trials import scaling

    return _stoppable(scaling.scale, asked, progress)


def walk(asked: Asked, progress: Progress) -> Trial:
    """Try what a run advises, and keep what helps: see `conduct.walk`."""
    from perfdoctor.trials import conduct

    return _stoppable(conduct.walk, asked, progress)


def _stoppable(measure: Callable[[Asked, Progress], Trial], asked: Asked, progress: Progress) -> Trial:
    with relay.stoppable():
        try:
            return measure(asked, progress)
        except KeyboardInterrupt as stop:  # before the first round
            raise Interrupted(relay.number_of(stop)) from None
