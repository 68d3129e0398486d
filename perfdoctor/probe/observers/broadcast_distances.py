"""Which distances and similarities of all pairs each step takes element by element."""

from __future__ import annotations

from typing import Any, Dict, List

from ...wire.events.broadcast_distances import BroadcastDistancesLineEvent, BroadcastDistancesLookEvent
from ..looks.pairs import PairCall, StepPairs
from ..looks.seen_calls import CallsByLine
from ..observer import Watch, observer


class BroadcastDistances(CallsByLine):
    """The distances and similarities of one process."""

    look_event = BroadcastDistancesLookEvent
    line_event = BroadcastDistancesLineEvent

    def next(self) -> None:
        """See what is broadcast."""
        self.step = StepPairs(self.watch.torch)

    def of_line(self, calls: List[PairCall]) -> Dict[str, Any]:
        """What the longest of them was like."""
        longest = max(calls, key=lambda call: call.ns)
        return {"pairs": longest.pairs, "width": longest.width, "kind": longest.kind}


@observer
def broadcast_distances(watch: Watch) -> None:
    """Look for distances of all pairs by broadcasting, in a few pairs of steps."""
    watch.on_looked_at_calls("broadcast_distances", BroadcastDistances(watch))
