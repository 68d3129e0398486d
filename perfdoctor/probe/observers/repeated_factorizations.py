"""Which calls of each step factorise the same matrix several times."""

from __future__ import annotations

from typing import Any, Dict, List

from ...wire.events.repeated_factorizations import (
    RepeatedFactorizationsLineEvent,
    RepeatedFactorizationsLookEvent,
)
from ..looks.factorizations import FactorisedMatrices, RepeatedFactorization, StepFactorizations
from ..looks.seen_calls import CallsByLine
from ..observer import Watch, observer


class RepeatedFactorizations(CallsByLine):
    """The factorisations of one process."""

    look_event = RepeatedFactorizationsLookEvent
    line_event = RepeatedFactorizationsLineEvent

    def begin(self) -> None:
        """See which matrices are factorised."""
        self.known = FactorisedMatrices(self.watch.torch)
        self.next()

    def next(self) -> None:
        """See which of them are factorised again."""
        self.step = StepFactorizations(self.watch.torch, self.known)

    def end(self) -> None:
        """Forget the pair, and its matrices."""
        super().end()
        self.known = FactorisedMatrices(self.watch.torch)

    def of_step(self, found: List[RepeatedFactorization]) -> Dict[str, Any]:
        """What goes with the copies."""
        taken_ns = sum(call.ns + call.backward_ns for call in found)
        copies_ns = sum(
            (call.ns + call.backward_ns) * (1.0 if call.again else 1 - 1 / call.times) for call in found
        )
        return {"repeated": copies_ns / taken_ns if taken_ns > 0 else 0.0}

    def of_line(self, calls: List[RepeatedFactorization]) -> Dict[str, Any]:
        """What the longest of them was like."""
        longest = max(calls, key=lambda call: call.ns)
        return {
            "matrices": longest.matrices,
            "width": longest.width,
            "times": longest.times,
            "again": sum(call.again for call in calls),
        }


@observer
def repeated_factorizations(watch: Watch) -> None:
    """Look for matrices that are factorised several times, in a few pairs of steps."""
    watch.on_looked_at_calls("repeated_factorizations", RepeatedFactorizations(watch))
