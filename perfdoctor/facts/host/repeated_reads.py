"""Finds lines that read the same files again and again: RepeatedReadFacts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from perfdoctor.facts.decode import location
from perfdoctor.facts.host.stack_costs import StackCosts, charged_most
from perfdoctor.facts.registry import fact
from perfdoctor.facts.user_source.parse import Sources
from perfdoctor.model.concluded import Bottleneck
from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.measured import Location, StepFacts
from perfdoctor.model.missing import Missing
from perfdoctor.wire.events.repeated_reads import RepeatedReadEvent


@dataclass(frozen=True)
class RepeatedRead:
    """A line that reads files which it has read before, and which are unchanged."""

    at: Location
    caller: Location | None  # the line of a loop that leads there, where it is in none itself
    files: int
    reads: int  # of the one that is read most often
    share: float  # of the training time: what is not read for the first time
    bottleneck: Bottleneck


@dataclass(frozen=True)
class RepeatedReadFacts:
    """Such lines, the costliest first."""

    lines: tuple[RepeatedRead, ...] = ()


@fact
def repeated_read_facts(
    events: list[RepeatedReadEvent], step: StepFacts, costs: StackCosts | Missing, sources: Sources
) -> RepeatedReadFacts | None:
    """By the last event of each file; None where none is read again."""
    last = {(event.pid, event.file): event for event in events}
    by_line: dict[tuple[str, int], list[RepeatedReadEvent]] = defaultdict(list)
    for event in last.values():
        places = _places(event)
        if places:
            by_line[places[0].file, places[0].line].append(event)
    if not by_line or not step.wall_s:
        return None
    found = [_read(place, read, step, costs, sources) for place, read in by_line.items()]
    return RepeatedReadFacts(tuple(sorted(found, key=lambda line: -line.share)))


def _read(
    place: tuple[str, int],
    read: Sequence[RepeatedReadEvent],
    step: StepFacts,
    costs: StackCosts | Missing,
    sources: Sources,
) -> RepeatedRead:
    at, *callers = _places(read[0])
    looping = (each for each in callers if _in_loop(each, sources))
    outside = None if _in_loop(at, sources) else next(looping, None)
    seen = () if isinstance(costs, Missing) else costs.costs
    below = [cost for cost in seen if any((frame.file, frame.line) == place for frame in cost.path)]
    return RepeatedRead(
        at=sources.shown(at) or at,
        caller=sources.shown(outside),
        files=len(read),
        reads=max(event.reads for event in read),
        share=min(1.0, sum(event.again_ns for event in read) / 1e9 / step.wall_s),
        bottleneck=charged_most(below) if below else Bottleneck.DATA,
    )


def _places(event: RepeatedReadEvent) -> list[Location]:
    return [at for line in event.lines if (at := location(line)) is not None]


def _in_loop(at: Location, sources: Sources) -> bool:
    return sources.file(at.file).outermost_loop(at.line) is not None
