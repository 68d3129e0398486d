"""Events of matrices that are factorised again: for each of their right-hand sides, or by later calls."""

from __future__ import annotations

from . import Event, Line


class RepeatedFactorizationsLookEvent(Event, name="repeated_factorizations_look"):
    """Two steps in a row were looked at call by call."""

    look: int | None  # counted from 1
    step_s: float  # of the second step, without what looking took
    calls: int  # of the second step, that factorised copies of the same matrices, or those of earlier calls
    seconds: float  # that they took
    backward_s: float  # that their parts of backward took
    repeated: float  # share of that time that goes with the copies; by time
    lines: int  # they come from


class RepeatedFactorizationsLineEvent(Event, name="repeated_factorizations_line"):
    """The calls of one line in such a step."""

    look: int | None
    calls: int
    seconds: float
    backward_s: float
    names: list[str]  # of the functions, costliest first
    matrices: int  # different ones, of the longest call
    width: int  # of each
    times: int  # that each of them is factorised
    at: Line | None
    again: int = 0  # of the calls, those whose matrices an earlier call of the two steps had
