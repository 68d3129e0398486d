"""Which distances and similarities of all pairs each step takes element by element."""

from __future__ import annotations

from typing import List

from ...wire.events import Event
from ...wire.events.broadcast_distances import BroadcastDistancesLineEvent, BroadcastDistancesLookEvent
from ..looks.pairs import PairCall, StepPairs
from ..looks.seen_calls import CallsByLine, backward_seconds_of, number_of_lines, seconds_of
from ..observer import Watch, observer


class BroadcastDistances(CallsByLine):
    """The distances and similarities of one process."""

    def next(self) -> None:
        """See what is broadcast."""
        self.step = StepPairs(self.watch.torch)

    def of_step(self, look: int, step_s: float, found: List[PairCall]) -> Event:
        """All of this step."""
        return BroadcastDistancesLookEvent(
            look=look,
            step_s=step_s,
            calls=len(found),
            seconds=seconds_of(found),
            backward_s=backward_seconds_of(found),
            lines=number_of_lines(found),
        )

    def of_line(self, look: int, calls: List[PairCall], seconds: float, names: List[str]) -> Event:
        """Those of one line."""
        longest = max(calls, key=lambda call: call.ns)
        return BroadcastDistancesLineEvent(
            look=look,
            calls=len(calls),
            seconds=seconds,
            backward_s=backward_seconds_of(calls),
            names=names,
            pairs=longest.pairs,
            width=longest.width,
            kind=longest.kind,
            at=calls[0].line,
        )


@observer
def broadcast_distances(watch: Watch) -> None:
    """Look for distances of all pairs by broadcasting, in a few pairs of steps."""
    watch.on_looked_at_calls("broadcast_distances", BroadcastDistances(watch))
