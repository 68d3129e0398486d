"""What torch.compile cost and where it stopped short: CompilingFacts."""

from __future__ import annotations

from collections.abc import Sequence

from perfdoctor.facts.decode import location
from perfdoctor.facts.registry import fact
from perfdoctor.facts.steps.span import MeasuredSpan
from perfdoctor.facts.user_source.parse import Sources
from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.measured import Location
from perfdoctor.wire.events.compiling import CompileCallEvent, CompiledEvent, GraphBreakEvent


@dataclass(frozen=True)
class CompiledAgain:
    """A function, or the part of one behind a graph break, that was compiled more than once."""

    function: Location | None
    name: str | None
    times: int  # again: the first one does not count
    seconds: float  # of these, with their backwards, between the first step and the last
    kept_s: float  # of which the compiler's cache spares the next start so many
    given_up: bool  # it runs as it is written since
    broken: tuple[str, ...]  # what had been taken for constant and changed, most often first
    at: Location | None  # the line that has it taken for constant


@dataclass(frozen=True)
class GraphBreak:
    """A place in the code at which a graph ends."""

    reason: str
    at: Location | None


@dataclass(frozen=True)
class CompilingFacts:
    """Everything that was compiled, costliest first, and every place where a graph broke."""

    compilations: int
    seconds: float  # of all
    again: tuple[CompiledAgain, ...]
    breaks: tuple[GraphBreak, ...]
    calls: tuple[Location, ...]  # of torch.compile
    span_s: float  # from the first step to the last: what `seconds` of CompiledAgain are a part of


@fact
def compiling_facts(
    compiled: list[CompiledEvent],
    broken: list[GraphBreakEvent],
    calls: list[CompileCallEvent],
    span: MeasuredSpan,
    sources: Sources,
) -> CompilingFacts | None:
    """What was compiled, or None where nothing was."""
    if not compiled:
        return None
    of_code: dict[str, list[CompiledEvent]] = {}
    for event in compiled:
        if event.code is not None:
            of_code.setdefault(event.code, []).append(event)
    again = [found for events in of_code.values() if (found := _again(events, span, sources)) is not None]
    places = {(event.reason, str(event.at)): event for event in broken}
    return CompilingFacts(
        compilations=sum(not (event.given_up or event.backward) for event in compiled),
        seconds=sum(event.seconds for event in compiled),
        again=tuple(sorted(again, key=lambda found: (found.given_up, found.seconds), reverse=True)),
        breaks=tuple(
            GraphBreak(event.reason, sources.shown(location(event.at))) for event in places.values()
        ),
        calls=tuple(at for event in calls if (at := sources.shown(location(event.at))) is not None),
        span_s=span.seconds,
    )


def _again(events: Sequence[CompiledEvent], span: MeasuredSpan, sources: Sources) -> CompiledAgain | None:
    """What is known of one piece of code that was compiled more than once."""
    later = [event for event in events if event.again]
    if not later:
        return None
    within = [event for event in later if span.holds(event.begin_ns)]
    guards = [event.broken for event in later if event.broken is not None]
    function = next((event.function for event in events if event.function is not None), None)
    lines = [at for event in later if (at := sources.shown(location(event.broken_at))) is not None]
    return CompiledAgain(
        function=sources.shown(location(function)),
        name=next((event.name for event in events if event.name is not None), None),
        times=sum(not (event.given_up or event.backward) for event in later),
        seconds=sum(event.seconds for event in within),
        kept_s=sum(event.kept_s for event in within),
        given_up=any(event.given_up for event in later),
        broken=tuple(sorted(set(guards), key=lambda guard: -guards.count(guard))),
        at=max(lines, key=lines.count) if lines else None,
    )
