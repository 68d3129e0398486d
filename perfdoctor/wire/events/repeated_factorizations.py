"""Events of matrices that are factorised again for each of their right-hand sides."""

from __future__ import annotations

from .seen_calls import CallsLineEvent, CallsLookEvent


class RepeatedFactorizationsLookEvent(CallsLookEvent, name="repeated_factorizations_look"):
    """The calls of a step that factorised copies of the same matrices."""

    repeated: float  # share of that time that goes with the copies; by time


class RepeatedFactorizationsLineEvent(CallsLineEvent, name="repeated_factorizations_line"):
    """Those of one line."""

    matrices: int  # different ones, of the longest call
    width: int  # of each
    times: int  # that each of them is factorised
