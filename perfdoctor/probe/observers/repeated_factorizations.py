"""Which calls of each step factorise copies of the same matrix."""

from __future__ import annotations

from typing import Any, Dict, List

from ...wire.events.repeated_factorizations import (
    RepeatedFactorizationsLineEvent,
    RepeatedFactorizationsLookEvent,
)
from ..looks.factorizations import RepeatedFactorization, StepFactorizations
from ..looks.seen_calls import CallsByLine
from ..observer import Watch, observer


class RepeatedFactorizations(CallsByLine):
    """The factorisations of one process."""

    look_event = RepeatedFactorizationsLookEvent
    line_event = RepeatedFactorizationsLineEvent

    def next(self) -> None:
        """See which matrices are factorised."""
        self.step = StepFactorizations(self.watch.torch)

    def of_step(self, found: List[RepeatedFactorization]) -> Dict[str, Any]:
        """What goes with the copies."""
        taken_ns = sum(call.ns + call.backward_ns for call in found)
        copies_ns = sum((call.ns + call.backward_ns) * (1 - 1 / call.times) for call in found)
        return {"repeated": copies_ns / taken_ns if taken_ns > 0 else 0.0}

    def of_line(self, calls: List[RepeatedFactorization]) -> Dict[str, Any]:
        """What the longest of them was like."""
        longest = max(calls, key=lambda call: call.ns)
        return {"matrices": longest.matrices, "width": longest.width, "times": longest.times}


@observer
def repeated_factorizations(watch: Watch) -> None:
    """Look for matrices that are factorised several times, in a few pairs of steps."""
    watch.on_looked_at_calls("repeated_factorizations", RepeatedFactorizations(watch))
