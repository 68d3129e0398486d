"""Events of distances and similarities of all pairs that are taken element by element."""

from __future__ import annotations

from . import Event, Line


class BroadcastDistancesLookEvent(Event, name="broadcast_distances_look"):
    """Two steps in a row were looked at call by call."""

    look: int | None  # counted from 1
    step_s: float  # of the second step, without what looking took
    calls: int  # of the second step: distances or similarities of all pairs, by broadcasting
    seconds: float  # that they took, from the broadcast to the sum
    backward_s: float  # that their parts of backward took
    lines: int  # they come from


class BroadcastDistancesLineEvent(Event, name="broadcast_distances_line"):
    """Those of one line in such a step."""

    look: int | None
    calls: int
    seconds: float
    backward_s: float
    names: list[str]  # of the functions that broadcast, costliest first
    pairs: int  # of the longest one
    width: int  # numbers of each pair that are summed up
    kind: str  # "cosine", "product", "distance" or "absolute", of absolute differences
    at: Line | None
