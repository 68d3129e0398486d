"""Which calls of each step do a Fourier transform by products with dense kernels."""

from __future__ import annotations

from typing import Any, Dict, List, Tuple

from ...wire.events.fourier_products import FourierProductsLineEvent, FourierProductsLookEvent
from ..looks.fourier import FourierProduct, PairTransforms
from ..looks.seen_calls import CallsByLine
from ..observer import Watch, observer


class FourierProducts(CallsByLine):
    """The transforms of one process."""

    look_event = FourierProductsLookEvent
    line_event = FourierProductsLineEvent

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

    def of_step(self, found: List[FourierProduct]) -> Dict[str, Any]:
        """Which of their operations a fast transform has, too."""
        taken_ns = sum(call.ns + call.backward_ns for call in found)
        left_ns = sum((call.ns + call.backward_ns) * call.operations_left for call in found)
        return {"operations_left": left_ns / taken_ns if taken_ns > 0 else 1.0}

    def of_line(self, calls: List[FourierProduct]) -> Dict[str, Any]:
        """What the longest of them was like."""
        longest = max(calls, key=lambda call: call.ns)
        return {"taps": longest.taps, "rows": longest.rows, "hop": longest.hop}


@observer
def fourier_products(watch: Watch) -> None:
    """Look for Fourier transforms by dense products, in a few pairs of steps."""
    watch.on_looked_at_calls("fourier_products", FourierProducts(watch))
