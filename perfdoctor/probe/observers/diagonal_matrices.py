"""Which calls of each step work on whole matrices that hold nothing but a diagonal."""

from __future__ import annotations

from typing import Any, Iterable, Optional, Tuple

from ...wire.events.diagonal_matrices import DiagonalMatricesLineEvent, DiagonalMatricesLookEvent
from ...wire.step_rows import DATA_WAIT
from ..looks.calls import CallViewer, costliest_lines, seconds_of
from ..looks.diagonals import DiagonalCall, Seen, StepDiagonals
from ..observer import Watch, observer
from ..wrapping import Args, Kwargs


class DiagonalMatrices(CallViewer):
    """The calls on diagonal matrices of one process, in the second step of each pair."""

    def __init__(self, watch: Watch) -> None:
        self.watch = watch
        self.step: Optional[StepDiagonals] = None  # under way

    def next(self) -> None:
        """See what is done to matrices."""
        self.step = StepDiagonals(self.watch.torch)

    def before(self, phase: int, function: Any, args: Args, kwargs: Kwargs, gap_ns: int) -> Any:
        """What goes in; what a batch is made by is no work of the model's."""
        if self.step is None or phase == DATA_WAIT:
            return None
        call = self.step.before(function, args, kwargs)
        return None if call is None else (self.step, call)

    def after(self, seen: Tuple[StepDiagonals, Seen], function: Any, result: Any, ns: int) -> None:
        """What came out."""
        step, call = seen
        step.after(call, result, ns)

    def tell(self, look: int, step_s: float) -> float:
        """Write down the calls of this step."""
        assert self.step is not None
        found = self.step.found
        self.watch.write(
            DiagonalMatricesLookEvent(
                look=look,
                step_s=step_s,
                calls=len(found),
                seconds=seconds_of(found),
                backward_s=_backward_s(found),
                lines=len({str(call.line) for call in found}),
            )
        )
        for calls, seconds, names in costliest_lines(found):
            longest = max(calls, key=lambda call: call.ns)
            self.watch.write(
                DiagonalMatricesLineEvent(
                    look=look,
                    calls=len(calls),
                    seconds=seconds,
                    backward_s=_backward_s(calls),
                    names=names,
                    matrices=longest.matrices,
                    width=longest.width,
                    distribution=2 * seconds_of(call for call in calls if call.distribution) > seconds,
                    at=calls[0].line,
                )
            )
        taken_s = seconds_of(found) + _backward_s(found)
        return taken_s / step_s if step_s > 0 else 1.0

    def end(self) -> None:
        """Forget the step."""
        self.step = None


def _backward_s(calls: Iterable[DiagonalCall]) -> float:
    return sum(call.backward_ns for call in calls) / 1e9


@observer
def diagonal_matrices(watch: Watch) -> None:
    """Look for work on matrices that hold nothing but a diagonal, in a few pairs of steps."""
    watch.on_looked_at_calls("diagonal_matrices", DiagonalMatrices(watch))
