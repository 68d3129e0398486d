"""Events of matrices that are factorised again: for each of their right-hand sides, or by later calls."""

from __future__ import annotations

from .seen_calls import CallsLineEvent, CallsLookEvent


class RepeatedFactorizationsLookEvent(CallsLookEvent, name="repeated_factorizations_look"):
    """The calls of a step that factorised copies of the same matrices, or those of earlier calls."""

    repeated: float  # share of that time that goes with the copies; by time


class RepeatedFactorizationsLineEvent(CallsLineEvent, name="repeated_factorizations_line"):
    """Those of one line."""

    matrices: int  # different ones, of the longest call
    width: int  # of each
    times: int  # that each of them is factorised
    again: int = 0  # of the calls, those whose matrices an earlier call of the two steps had
