"""Which products each step makes with matrices that are mostly zero."""

from __future__ import annotations

from typing import Any, Dict, List

from ...wire.events.zero_products import ZeroProductsLineEvent, ZeroProductsLookEvent
from ..looks.products import StepProducts, ZeroProduct
from ..looks.seen_calls import CallsByLine
from ..observer import Watch, observer


class ZeroProducts(CallsByLine):
    """The products of one process."""

    look_event = ZeroProductsLookEvent
    line_event = ZeroProductsLineEvent

    def next(self) -> None:
        """See what is multiplied."""
        self.step = StepProducts(self.watch.torch)

    def of_line(self, calls: List[ZeroProduct]) -> Dict[str, Any]:
        """What the longest of them was like."""
        longest = max(calls, key=lambda call: call.ns)
        return {
            "rows": longest.rows,
            "columns": longest.columns,
            "nonzero_share": longest.nonzero_share,
            "one_hot": longest.one_hot,
        }


@observer
def zero_products(watch: Watch) -> None:
    """Look for products with matrices that are mostly zero, in a few pairs of steps."""
    watch.on_looked_at_calls("zero_products", ZeroProducts(watch))
