"""Which calls of each step factorise the same matrix several times."""

from __future__ import annotations

from typing import List

from ...wire.events import Event
from ...wire.events.repeated_factorizations import (
    RepeatedFactorizationsLineEvent,
    RepeatedFactorizationsLookEvent,
)
from ..looks.factorizations import FactorisedMatrices, RepeatedFactorization, StepFactorizations
from ..looks.seen_calls import CallsByLine, backward_seconds_of, number_of_lines, seconds_of
from ..observer import Watch, observer


class RepeatedFactorizations(CallsByLine):
    """The factorisations of one process."""

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

    def of_step(self, look: int, step_s: float, found: List[RepeatedFactorization]) -> Event:
        """All such calls of this step."""
        taken_ns = sum(call.ns + call.backward_ns for call in found)
        copies_ns = sum(
            (call.ns + call.backward_ns) * (1.0 if call.again else 1 - 1 / call.times) for call in found
        )
        return RepeatedFactorizationsLookEvent(
            look=look,
            step_s=step_s,
            calls=len(found),
            seconds=seconds_of(found),
            backward_s=backward_seconds_of(found),
            repeated=copies_ns / taken_ns if taken_ns > 0 else 0.0,
            lines=number_of_lines(found),
        )

    def of_line(
        self, look: int, calls: List[RepeatedFactorization], seconds: float, names: List[str]
    ) -> Event:
        """Those of one line."""
        longest = max(calls, key=lambda call: call.ns)
        return RepeatedFactorizationsLineEvent(
            look=look,
            calls=len(calls),
            seconds=seconds,
            backward_s=backward_seconds_of(calls),
            names=names,
            matrices=longest.matrices,
            width=longest.width,
            times=longest.times,
            again=sum(call.again for call in calls),
            at=calls[0].line,
        )


@observer
def repeated_factorizations(watch: Watch) -> None:
    """Look for matrices that are factorised several times, in a few pairs of steps."""
    watch.on_looked_at_calls("repeated_factorizations", RepeatedFactorizations(watch))
