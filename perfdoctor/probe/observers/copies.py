"""Which tensors and arrays a step copies as a whole, although the step before copied them already."""

from __future__ import annotations

from typing import List, Optional

from ...wire.events import Event
from ...wire.events.copies import CopiesLineEvent, CopiesLookEvent
from ..looks.copies import MOSTLY, CopyCall, StepCopies, storages_of
from ..looks.seen_calls import CallsByLine, number_of_lines, seconds_of
from ..observer import Watch, observer


class RepeatedCopies(CallsByLine):
    """The copies of one process that both steps of a pair make."""

    def begin(self) -> None:
        """See what is copied."""
        self.step = self._copies()

    def next(self) -> None:
        """See what is copied again."""
        self.step = self._copies(self.step)

    def _copies(self, earlier: Optional[StepCopies] = None) -> StepCopies:
        weights, gradients = storages_of(self.watch.torch, self.watch.lines.optimizers)
        return StepCopies(self.watch.torch, earlier, weights, gradients)

    def of_step(self, look: int, step_s: float, found: List[CopyCall]) -> Event:
        """All of them."""
        return CopiesLookEvent(
            look=look,
            step_s=step_s,
            calls=len(found),
            bytes=sum(call.bytes for call in found),
            seconds=seconds_of(found),
            lines=number_of_lines(found),
        )

    def of_line(self, look: int, calls: List[CopyCall], seconds: float, names: List[str]) -> Event:
        """Those of one line."""
        size = sum(call.bytes for call in calls)
        return CopiesLineEvent(
            look=look,
            bytes=size,
            calls=len(calls),
            seconds=seconds,
            names=names,
            weights=sum(call.bytes for call in calls if call.weights) > MOSTLY * size,
            gradients=sum(call.bytes for call in calls if call.gradients) > MOSTLY * size,
            at=calls[0].line,
        )


@observer
def copies(watch: Watch) -> None:
    """Look for copies that each step makes anew, in a few pairs of steps."""
    watch.on_looked_at_calls("copies", RepeatedCopies(watch))
