"""Events of copying the same again: tensors and arrays that a step copies, as the step before did."""

from __future__ import annotations

from . import Event, Line


class CopiesLookEvent(Event, name="copies_look"):
    """Two steps in a row were looked at call by call."""

    look: int | None  # counted from 1
    step_s: float  # of the second step, without what looking took
    calls: int  # of the second step, those that copied what the first one copied
    bytes: int  # that they wrote
    seconds: float  # that they took
    lines: int  # they come from


class CopiesLineEvent(Event, name="copies_line"):
    """What one line copied in both steps of such a pair: the second step's calls."""

    look: int | None
    bytes: int
    calls: int
    seconds: float
    names: list[str]  # of the functions, costliest first
    weights: bool  # most of these bytes are parameters that optimizers train, or copies of them
    at: Line | None
    gradients: bool = False  # or their gradients, which are set to zero and not dropped
