"""Trials: the original and its variants executed in turns, measured and decided.

A signal that ends a program ends the trial, and no more: it comes back with what was measured until then, and
`interrupted` set. Who has more to do after it looks at that first.
"""

from __future__ import annotations

from perfdoctor.errors import Interrupted
from perfdoctor.model.trial import Trial
from perfdoctor.trials.request import ProgressDisplay, Request
from perfdoctor.watch import signals

__all__ = ["Interrupted", "ProgressDisplay", "Request", "run"]


def run(request: Request, progress: ProgressDisplay) -> Trial:
    """Measure what is requested: see `trial.run`."""
    from perfdoctor.trials import trial  # here: help and lists of tweaks do without numpy and psutil

    with signals.stoppable():
        try:
            return trial.run(request, progress)
        except KeyboardInterrupt as stop:  # before the first round
            raise Interrupted(signals.number_of(stop)) from None
