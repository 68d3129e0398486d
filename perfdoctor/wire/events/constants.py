"""Events of computing the same again: results that come out equal in every step."""

from __future__ import annotations

from . import Event, Line


class ConstantsLookEvent(Event, name="constants_look"):
    """Two steps in a row were looked at call by call, and compared with earlier ones."""

    look: int | None  # counted from 1; what the first one finds only serves to compare with
    step_s: float  # of the second step, without what looking took
    calls: int  # of torch's functions, in that step
    constants: int  # of them, those that gave what they always gave
    seconds: float  # that those took
    lines: int  # they come from
    # That all its calls took, with what lies between those of one phase: of a step with very many, only the
    # begin was looked at. None: an older run.
    called_s: float | None = None


class ConstantsLineEvent(Event, name="constants_line"):
    """What one line computed in a looked-at step, from inputs that were the same in all looked-at steps."""

    look: int | None
    seconds: float
    calls: int
    names: list[str]  # of the functions, costliest first
    at: Line | None
