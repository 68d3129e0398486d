"""Which tensors and arrays a step copies as a whole, although the step before copied them already."""

from __future__ import annotations

from typing import Any, Optional, Tuple

from ...wire.events.copies import CopiesLineEvent, CopiesLookEvent
from ...wire.step_rows import DATA_WAIT
from ..looks.calls import CallViewer, costliest_lines, seconds_of
from ..looks.copies import MOSTLY, StepCopies, storages_of
from ..observer import Watch, observer
from ..wrapping import Args, Kwargs


class RepeatedCopies(CallViewer):
    """The repeated copies of one process."""

    def __init__(self, watch: Watch) -> None:
        self.watch = watch
        self.step: Optional[StepCopies] = None  # under way

    def begin(self) -> None:
        """See what is copied."""
        self.step = self._copies()

    def next(self) -> None:
        """See what is copied again."""
        self.step = self._copies(self.step)

    def _copies(self, earlier: Optional[StepCopies] = None) -> StepCopies:
        weights, gradients = storages_of(self.watch.torch, self.watch.lines.optimizers)
        return StepCopies(self.watch.torch, earlier, weights, gradients)

    def before(self, phase: int, function: Any, args: Args, kwargs: Kwargs, gap_ns: int) -> Any:
        """What goes in; collating copies, as it should."""
        if self.step is None or phase == DATA_WAIT:
            return None
        call = self.step.before(function, args, kwargs)
        return None if call is None else (self.step, call)

    def after(self, seen: Tuple[StepCopies, Any], function: Any, result: Any, ns: int) -> None:
        """What came out."""
        step, call = seen
        step.after(call, result, ns)

    def tell(self, look: int, step_s: float) -> float:
        """Write down what both steps of this pair copied."""
        assert self.step is not None
        repeated = self.step.repeated
        lines = costliest_lines(repeated)
        self.watch.write(
            CopiesLookEvent(
                look=look,
                step_s=step_s,
                calls=len(repeated),
                bytes=sum(call.bytes for call in repeated),
                seconds=seconds_of(repeated),
                lines=len({str(call.line) for call in repeated}),
            )
        )
        for calls, seconds, names in lines:
            size = sum(call.bytes for call in calls)
            self.watch.write(
                CopiesLineEvent(
                    look=look,
                    bytes=size,
                    calls=len(calls),
                    seconds=seconds,
                    names=names,
                    weights=sum(call.bytes for call in calls if call.weights) > MOSTLY * size,
                    gradients=sum(call.bytes for call in calls if call.gradients) > MOSTLY * size,
                    at=calls[0].line,
                )
            )
        return seconds_of(repeated) / step_s if step_s > 0 else 1.0

    def end(self) -> None:
        """Forget the pair."""
        self.step = None


@observer
def copies(watch: Watch) -> None:
    """Look for copies that each step makes anew, in a few pairs of steps."""
    watch.on_looked_at_calls("copies", RepeatedCopies(watch))
