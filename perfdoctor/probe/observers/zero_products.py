"""Which products each step makes with matrices that are mostly zero."""

from __future__ import annotations

from typing import Any, Iterable, Optional, Tuple

from ...wire.events.zero_products import ZeroProductsLineEvent, ZeroProductsLookEvent
from ...wire.step_rows import DATA_WAIT
from ..looks.calls import CallViewer, costliest_lines, seconds_of
from ..looks.products import StepProducts, ZeroProduct
from ..observer import Watch, observer
from ..wrapping import Args, Kwargs


class ZeroProducts(CallViewer):
    """The products of one process, in the second step of each pair."""

    def __init__(self, watch: Watch) -> None:
        self.watch = watch
        self.step: Optional[StepProducts] = None  # under way

    def next(self) -> None:
        """See what is multiplied."""
        self.step = StepProducts(self.watch.torch)

    def before(self, phase: int, function: Any, args: Args, kwargs: Kwargs, gap_ns: int) -> Any:
        """What goes in; what a batch is made by is no product of the model's."""
        if self.step is None or phase == DATA_WAIT:
            return None
        call = self.step.before(function, args, kwargs)
        return None if call is None else (self.step, call)

    def after(self, seen: Tuple[StepProducts, Any], function: Any, result: Any, ns: int) -> None:
        """What came out."""
        step, call = seen
        step.after(call, result, ns)

    def tell(self, look: int, step_s: float) -> float:
        """Write down the products of this step."""
        assert self.step is not None
        found = self.step.found
        self.watch.write(
            ZeroProductsLookEvent(
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
                ZeroProductsLineEvent(
                    look=look,
                    calls=len(calls),
                    seconds=seconds,
                    backward_s=_backward_s(calls),
                    names=names,
                    rows=longest.rows,
                    columns=longest.columns,
                    nonzero_share=longest.nonzero_share,
                    one_hot=longest.one_hot,
                    at=calls[0].line,
                )
            )
        taken_s = seconds_of(found) + _backward_s(found)
        return taken_s / step_s if step_s > 0 else 1.0

    def end(self) -> None:
        """Forget the step."""
        self.step = None


def _backward_s(calls: Iterable[ZeroProduct]) -> float:
    return sum(call.backward_ns for call in calls) / 1e9


@observer
def zero_products(watch: Watch) -> None:
    """Look for products with matrices that are mostly zero, in a few pairs of steps."""
    watch.on_looked_at_calls("zero_products", ZeroProducts(watch))
