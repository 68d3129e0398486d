"""Which calls of each step work on whole matrices that hold nothing but a diagonal."""

from __future__ import annotations

from typing import List

from ...wire.events import Event
from ...wire.events.diagonal_matrices import DiagonalMatricesLineEvent, DiagonalMatricesLookEvent
from ..looks.diagonals import DiagonalCall, StepDiagonals
from ..looks.seen_calls import CallsByLine, backward_seconds_of, number_of_lines, seconds_of
from ..observer import Watch, observer


class DiagonalMatrices(CallsByLine):
    """The calls on diagonal matrices of one process."""

    def next(self) -> None:
        """See what is done to matrices."""
        self.step = StepDiagonals(self.watch.torch)

    def of_step(self, look: int, step_s: float, found: List[DiagonalCall]) -> Event:
        """All such calls of this step."""
        return DiagonalMatricesLookEvent(
            look=look,
            step_s=step_s,
            calls=len(found),
            seconds=seconds_of(found),
            backward_s=backward_seconds_of(found),
            lines=number_of_lines(found),
        )

    def of_line(self, look: int, calls: List[DiagonalCall], seconds: float, names: List[str]) -> Event:
        """Those of one line."""
        longest = max(calls, key=lambda call: call.ns)
        return DiagonalMatricesLineEvent(
            look=look,
            calls=len(calls),
            seconds=seconds,
            backward_s=backward_seconds_of(calls),
            names=names,
            matrices=longest.matrices,
            width=longest.width,
            distribution=2 * seconds_of(call for call in calls if call.distribution) > seconds,
            at=calls[0].line,
        )


@observer
def diagonal_matrices(watch: Watch) -> None:
    """Look for work on matrices that hold nothing but a diagonal, in a few pairs of steps."""
    watch.on_looked_at_calls("diagonal_matrices", DiagonalMatrices(watch))
