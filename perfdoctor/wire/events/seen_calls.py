"""What the events of calls that are looked for in sampled steps have in common; each kind adds its own."""

from __future__ import annotations

from . import Event, Line


class CallsLookEvent(Event):
    """Two steps in a row were looked at call by call: what the calls of one kind take of the second."""

    look: int | None  # counted from 1
    step_s: float  # of the second step, without what looking took
    calls: int  # of the second step, of this kind
    seconds: float  # that they took
    backward_s: float  # that their parts of backward took
    lines: int  # they come from


class CallsLineEvent(Event):
    """Those of one line in such a step."""

    look: int | None
    calls: int
    seconds: float
    backward_s: float
    names: list[str]  # of the functions, costliest first
    at: Line | None
