"""Events of activation checkpointing: parts of the forward pass that run again inside backward."""

from __future__ import annotations

from . import Event, Line


class RecomputationEvent(Event, name="recomputation"):
    """Running totals of recomputations, from the first step on."""

    calls: int
    seconds: float  # from begin to end of each, on the host
    at: Line | None  # of the script, that called the first part which is computed again
