"""Executions made up for tests of trials, one line each."""

from __future__ import annotations

from typing import Any

from perfdoctor.model.trial import Execution, ExecutionEnd, Place, Setting, Variant
from perfdoctor.probe.trial.tweak import BITWISE

WORKERS = Variant((Setting("workers", ("--workers", "4"), {"value": 4}, BITWISE),))
APPLIED = (Place("workers", "DataLoader num_workers", None, 0, 4),)


def execution(step_s: float | None = 0.1, number: int = 0, **given: Any) -> Execution:
    """An original, measured."""
    usual: dict[str, Any] = {
        "ending": ExecutionEnd.MEASURED,
        "samples_per_s": None if step_s is None else 32 / step_s,
        "steps": 50,
        "start_s": 3.0,
        "warm_up_s": 0.5,
        "warm_up_steps": 5,
        "losses": (2.0, 1.5, 1.0, 0.5),
    }
    return Execution(round=number, step_s=step_s, **{**usual, **given})


def tweaked(step_s: float | None = 0.05, number: int = 0, **given: Any) -> Execution:
    """A variant that changed something, measured."""
    return execution(step_s, number, **{"applied": APPLIED, **given})


def broken(ending: ExecutionEnd, number: int = 0, **given: Any) -> Execution:
    """An execution that measured nothing."""
    return Execution(round=number, ending=ending, **given)
