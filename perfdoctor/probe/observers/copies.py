"""Which tensors and arrays a step copies as a whole, although the step before copied them already."""

from __future__ import annotations

from typing import Any, Dict, List, Optional

from ...wire.events.copies import CopiesLineEvent, CopiesLookEvent
from ..looks.copies import MOSTLY, CopyCall, StepCopies, storages_of
from ..looks.seen_calls import CallsByLine
from ..observer import Watch, observer


class RepeatedCopies(CallsByLine):
    """The copies of one process that both steps of a pair make."""

    look_event = CopiesLookEvent
    line_event = CopiesLineEvent

    def begin(self) -> None:
        """See what is copied."""
        self.step = self._copies()

    def next(self) -> None:
        """See what is copied again."""
        self.step = self._copies(self.step)

    def _copies(self, earlier: Optional[StepCopies] = None) -> StepCopies:
        weights, gradients = storages_of(self.watch.torch, self.watch.lines.optimizers)
        return StepCopies(self.watch.torch, earlier, weights, gradients)

    def of_step(self, found: List[CopyCall]) -> Dict[str, Any]:
        """How much they wrote."""
        return {"bytes": sum(call.bytes for call in found)}

    def of_line(self, calls: List[CopyCall]) -> Dict[str, Any]:
        """How much they wrote, and whether it was mostly weights or gradients."""
        size = sum(call.bytes for call in calls)
        return {
            "bytes": size,
            "weights": sum(call.bytes for call in calls if call.weights) > MOSTLY * size,
            "gradients": sum(call.bytes for call in calls if call.gradients) > MOSTLY * size,
        }


@observer
def copies(watch: Watch) -> None:
    """Look for copies that each step makes anew, in a few pairs of steps."""
    watch.on_looked_at_calls("copies", RepeatedCopies(watch))
