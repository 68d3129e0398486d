"""Which calls of each step work on whole matrices that hold nothing but a diagonal."""

from __future__ import annotations

from typing import Any, Dict, List

from ...wire.events.diagonal_matrices import DiagonalMatricesLineEvent, DiagonalMatricesLookEvent
from ..looks.diagonals import DiagonalCall, StepDiagonals
from ..looks.seen_calls import CallsByLine, seconds_of
from ..observer import Watch, observer


class DiagonalMatrices(CallsByLine):
    """The calls on diagonal matrices of one process."""

    look_event = DiagonalMatricesLookEvent
    line_event = DiagonalMatricesLineEvent

    def next(self) -> None:
        """See what is done to matrices."""
        self.step = StepDiagonals(self.watch.torch)

    def of_line(self, calls: List[DiagonalCall]) -> Dict[str, Any]:
        """What the longest of them was like, and whether most were called by torch.distributions."""
        longest = max(calls, key=lambda call: call.ns)
        distribution_s = seconds_of(call for call in calls if call.distribution)
        return {
            "matrices": longest.matrices,
            "width": longest.width,
            "distribution": 2 * distribution_s > seconds_of(calls),
        }


@observer
def diagonal_matrices(watch: Watch) -> None:
    """Look for work on matrices that hold nothing but a diagonal, in a few pairs of steps."""
    watch.on_looked_at_calls("diagonal_matrices", DiagonalMatrices(watch))
