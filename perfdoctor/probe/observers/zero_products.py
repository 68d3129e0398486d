"""Which products each step makes with matrices that are mostly zero."""

from __future__ import annotations

from typing import List

from ...wire.events import Event
from ...wire.events.zero_products import ZeroProductsLineEvent, ZeroProductsLookEvent
from ..looks.products import StepProducts, ZeroProduct
from ..looks.seen_calls import CallsByLine, backward_seconds_of, number_of_lines, seconds_of
from ..observer import Watch, observer


class ZeroProducts(CallsByLine):
    """The products of one process."""

    def next(self) -> None:
        """See what is multiplied."""
        self.step = StepProducts(self.watch.torch)

    def of_step(self, look: int, step_s: float, found: List[ZeroProduct]) -> Event:
        """All products of this step."""
        return ZeroProductsLookEvent(
            look=look,
            step_s=step_s,
            calls=len(found),
            seconds=seconds_of(found),
            backward_s=backward_seconds_of(found),
            lines=number_of_lines(found),
        )

    def of_line(self, look: int, calls: List[ZeroProduct], seconds: float, names: List[str]) -> Event:
        """Those of one line."""
        longest = max(calls, key=lambda call: call.ns)
        return ZeroProductsLineEvent(
            look=look,
            calls=len(calls),
            seconds=seconds,
            backward_s=backward_seconds_of(calls),
            names=names,
            rows=longest.rows,
            columns=longest.columns,
            nonzero_share=longest.nonzero_share,
            one_hot=longest.one_hot,
            at=calls[0].line,
        )


@observer
def zero_products(watch: Watch) -> None:
    """Look for products with matrices that are mostly zero, in a few pairs of steps."""
    watch.on_looked_at_calls("zero_products", ZeroProducts(watch))
