"""Which calls of each step do a Fourier transform by products with dense kernels."""

from __future__ import annotations

from typing import Dict, List, Tuple

from ...wire.events import Event
from ...wire.events.fourier_products import FourierProductsLineEvent, FourierProductsLookEvent
from ..looks.fourier import FourierProduct, PairTransforms
from ..looks.seen_calls import CallsByLine, backward_seconds_of, number_of_lines, seconds_of
from ..observer import Watch, observer


class FourierProducts(CallsByLine):
    """The transforms of one process."""

    def __init__(self, watch: Watch) -> None:
        super().__init__(watch)
        self.judged: Dict[Tuple[int, ...], bool] = {}  # kernels, by memory, version and shape

    def begin(self) -> None:
        """See which kernels there are."""
        self.step = PairTransforms(self.watch.torch, self.judged)

    def next(self) -> None:
        """See what is multiplied by the same ones."""
        if self.step is not None:
            self.step.is_second = True

    def of_step(self, look: int, step_s: float, found: List[FourierProduct]) -> Event:
        """All transforms of this step."""
        taken_ns = sum(call.ns + call.backward_ns for call in found)
        left_ns = sum((call.ns + call.backward_ns) * call.operations_left for call in found)
        return FourierProductsLookEvent(
            look=look,
            step_s=step_s,
            calls=len(found),
            seconds=seconds_of(found),
            backward_s=backward_seconds_of(found),
            operations_left=left_ns / taken_ns if taken_ns > 0 else 1.0,
            lines=number_of_lines(found),
        )

    def of_line(self, look: int, calls: List[FourierProduct], seconds: float, names: List[str]) -> Event:
        """Those of one line."""
        longest = max(calls, key=lambda call: call.ns)
        return FourierProductsLineEvent(
            look=look,
            calls=len(calls),
            seconds=seconds,
            backward_s=backward_seconds_of(calls),
            names=names,
            taps=longest.taps,
            rows=longest.rows,
            hop=longest.hop,
            at=calls[0].line,
        )


@observer
def fourier_products(watch: Watch) -> None:
    """Look for Fourier transforms by dense products, in a few pairs of steps."""
    watch.on_looked_at_calls("fourier_products", FourierProducts(watch))
