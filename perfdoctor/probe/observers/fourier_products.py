"""Which calls of each step do a Fourier transform by products with dense kernels."""

from __future__ import annotations

from typing import Any, Dict, List, Optional, Tuple

from ...wire.events.fourier_products import FourierProductsLineEvent, FourierProductsLookEvent
from ...wire.step_rows import DATA_WAIT
from ..looks.calls import CallViewer, costliest_lines, seconds_of
from ..looks.fourier import FourierProduct, PairTransforms
from ..observer import Watch, observer
from ..wrapping import Args, Kwargs


class FourierProducts(CallViewer):
    """The transforms of one process, in the second step of each pair."""

    def __init__(self, watch: Watch) -> None:
        self.watch = watch
        self.pair: Optional[PairTransforms] = None  # under way
        self.judged: Dict[Tuple[int, ...], bool] = {}  # kernels, by memory, version and shape

    def begin(self) -> None:
        """See which kernels there are."""
        self.pair = PairTransforms(self.watch.torch, self.judged)

    def next(self) -> None:
        """See what is multiplied by the same ones."""
        if self.pair is not None:
            self.pair.is_second = True

    def before(self, phase: int, function: Any, args: Args, kwargs: Kwargs, gap_ns: int) -> Any:
        """What goes in; what a batch is made by is no work of the model's."""
        if self.pair is None or phase == DATA_WAIT:
            return None
        call = self.pair.before(function, args, kwargs)
        return None if call is None else (self.pair, call)

    def after(self, seen: Tuple[PairTransforms, Any], function: Any, result: Any, ns: int) -> None:
        """What came out."""
        pair, call = seen
        pair.after(call, result, ns)

    def tell(self, look: int, step_s: float) -> float:
        """Write down the transforms of this step."""
        assert self.pair is not None
        found = self.pair.found
        taken_s = seconds_of(found) + _backward_s(found)
        left_s = sum((call.ns + call.backward_ns) * call.operations_left for call in found) / 1e9
        self.watch.write(
            FourierProductsLookEvent(
                look=look,
                step_s=step_s,
                calls=len(found),
                seconds=seconds_of(found),
                backward_s=_backward_s(found),
                operations_left=left_s / taken_s if taken_s > 0 else 1.0,
                lines=len({str(call.line) for call in found}),
            )
        )
        for calls, seconds, names in costliest_lines(found):
            longest = max(calls, key=lambda call: call.ns)
            self.watch.write(
                FourierProductsLineEvent(
                    look=look,
                    calls=len(calls),
                    seconds=seconds,
                    backward_s=_backward_s(calls),
                    names=names,
                    taps=longest.taps,
                    rows=longest.rows,
                    hop=longest.hop,
                    at=calls[0].line,
                )
            )
        return taken_s / step_s if step_s > 0 else 1.0

    def end(self) -> None:
        """Forget the pair."""
        self.pair = None


def _backward_s(calls: List[FourierProduct]) -> float:
    return sum(call.backward_ns for call in calls) / 1e9


@observer
def fourier_products(watch: Watch) -> None:
    """Look for Fourier transforms by dense products, in a few pairs of steps."""
    watch.on_looked_at_calls("fourier_products", FourierProducts(watch))
