"""Events of distances and similarities of all pairs that are taken element by element."""

from __future__ import annotations

from .seen_calls import CallsLineEvent, CallsLookEvent


class BroadcastDistancesLookEvent(CallsLookEvent, name="broadcast_distances_look"):
    """Those of a step, each from the broadcast to the sum."""


class BroadcastDistancesLineEvent(CallsLineEvent, name="broadcast_distances_line"):
    """Those of one line."""

    pairs: int  # of the longest one
    width: int  # numbers of each pair that are summed up
    kind: str  # "cosine", "product", "distance" or "absolute", of absolute differences
