"""What look-ups take that renormalise rows of their table first, by `max_norm`."""

from __future__ import annotations

from typing import Any, Dict, List, Optional

from ...wire.events.embeddings import RenormalisationLookEvent, RenormalisedTableEvent
from ...wire.step_rows import DATA_WAIT
from ..looks.calls import CallViewer
from ..looks.seen_calls import SeenCall, costliest_lines, name_of, seconds_of
from ..observer import Watch, observer
from ..user_frames import user_line
from ..wrapping import Args, Kwargs

LOOKUPS = frozenset(("embedding", "embedding_bag"))


class RenormalisingCall(SeenCall):
    """A look-up with `max_norm`."""

    __slots__ = ("called", "lookups", "width")

    def __init__(self, name: str, lookups: int, width: int) -> None:
        super().__init__(name, 0)
        self.lookups = lookups
        self.width = width
        self.called: Optional[Dict[str, Any]] = None  # the line that makes it; `line` is that of its table


class RenormalisedEmbeddings(CallViewer):
    """The look-ups of one process, in the second step of each pair."""

    def __init__(self, watch: Watch) -> None:
        self.watch = watch
        self.found: Optional[List[RenormalisingCall]] = None  # of the step under way
        self.lines: Dict[int, Any] = {}  # of tables that it looks up in

    def next(self) -> None:
        """See what is looked up."""
        self.found = []

    def before(self, phase: int, function: Any, args: Args, kwargs: Kwargs, gap_ns: int) -> Any:
        """A look-up; torch gives all but indices and table by name."""
        if self.found is None or phase == DATA_WAIT or kwargs.get("max_norm") is None or len(args) < 2:
            return None
        name = name_of(function)
        indices, table = args[:2]
        if name not in LOOKUPS or not table.is_cpu:
            return None
        call = RenormalisingCall(name, int(indices.numel()), int(table.shape[-1]))
        call.called = user_line()
        if id(table) not in self.lines:
            self.lines[id(table)] = self.watch.lines.line_of_weight(table)
        call.line = self.lines[id(table)] or call.called
        return call

    def after(self, seen: RenormalisingCall, function: Any, result: Any, ns: int) -> None:
        """It has ended."""
        if self.found is not None:
            seen.ns = ns
            self.found.append(seen)

    def tell(self, look: int, step_s: float) -> float:
        """Write down the look-ups of this step."""
        found = self.found or []
        seconds = seconds_of(found)
        self.watch.write(
            RenormalisationLookEvent(look=look, step_s=step_s, calls=len(found), seconds=seconds)
        )
        for calls in costliest_lines(found):
            longest = max(calls, key=lambda call: call.ns)
            self.watch.write(
                RenormalisedTableEvent(
                    look=look,
                    calls=len(calls),
                    seconds=seconds_of(calls),
                    lookups=sum(call.lookups for call in calls),
                    width=longest.width,
                    at=longest.line,
                    called=longest.called,
                )
            )
        return seconds / step_s if step_s > 0 else 1.0

    def end(self) -> None:
        """Forget the step."""
        self.found = None
        self.lines = {}


@observer
def renormalised_embeddings(watch: Watch) -> None:
    """Time look-ups with `max_norm`, in a few pairs of steps."""
    watch.on_looked_at_calls("renormalised_embeddings", RenormalisedEmbeddings(watch))
