"""What torch.compile cost and where it stopped short: CompilingFacts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from perfdoctor.facts.decode import location
from perfdoctor.facts.registry import fact
from perfdoctor.facts.steps import tenths
from perfdoctor.facts.steps.boundaries import Steps
from perfdoctor.facts.steps.span import MeasuredSpan
from perfdoctor.facts.user_source.parse import Sources
from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.measured import Location, Phase
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
    shares: tuple[tuple[Phase, float], ...] = ()  # of the timed steps' time, that went from these phases


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
    steps: Steps,
    sources: Sources,
) -> CompilingFacts | None:
    """What was compiled, or None where nothing was."""
    if not compiled:
        return None
    of_code: dict[str, list[CompiledEvent]] = {}
    for event in compiled:
        if event.code is not None:
            of_code.setdefault(event.code, []).append(event)
    phases = _Phases(steps, compiled)
    seen = [(id(event), phases.take(event)) for event in compiled if event.again]
    taken = {identity: share for identity, share in seen if share is not None}
    again = [
        found for events in of_code.values() if (found := _again(events, span, sources, taken)) is not None
    ]
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


class _Phases:
    """What the phases of each timed step took beyond the usual: no more of compiling lies in there."""

    def __init__(self, steps: Steps, compiled: Sequence[CompiledEvent]) -> None:
        self.end_ns, self.begin_ns = steps.end_ns, steps.begin_ns
        timed = tenths.timed(steps)
        self.whole_s = float(steps.seconds[timed].sum())
        compiling = np.searchsorted(self.end_ns, [event.begin_ns for event in compiled])
        usual = timed & ~np.isin(np.arange(len(timed)), compiling)
        self.left_s = {}
        for phase, seconds in steps.phases.items():
            usual_s = float(np.median(seconds[usual] / steps.weight[usual])) if usual.any() else 0.0
            self.left_s[phase] = np.where(timed, np.maximum(0.0, seconds - usual_s * steps.weight), 0.0)

    def take(self, event: CompiledEvent) -> tuple[Phase, float] | None:
        """The phase in which a piece of code was compiled, and the share of all timed steps that took.

        A backward is compiled as it runs first; anything else where the compiled code is called, in forward
        as a rule, else in the phase that took longest beyond the usual in that step.
        """
        step = int(np.searchsorted(self.end_ns, event.begin_ns))
        if step >= len(self.end_ns) or event.begin_ns < self.begin_ns[step] or self.whole_s <= 0:
            return None
        left_s = {phase: float(seconds[step]) for phase, seconds in self.left_s.items()}
        rest = [phase for phase in left_s if phase is not Phase.BACKWARD]
        phase = Phase.BACKWARD if event.backward else max(rest, key=lambda one: left_s[one])
        if not event.backward and left_s[Phase.FORWARD] >= event.seconds:
            phase = Phase.FORWARD
        taken_s = min(event.seconds, left_s[phase])
        self.left_s[phase][step] -= taken_s
        return phase, taken_s / self.whole_s


def _again(
    events: Sequence[CompiledEvent],
    span: MeasuredSpan,
    sources: Sources,
    taken: Mapping[int, tuple[Phase, float]],
) -> CompiledAgain | None:
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
        shares=tuple(_added(taken[id(event)] for event in within if id(event) in taken)),
    )


def _added(taken: Iterator[tuple[Phase, float]]) -> list[tuple[Phase, float]]:
    """The shares of each phase together, the largest first."""
    shares: defaultdict[Phase, float] = defaultdict(float)
    for phase, share in taken:
        shares[phase] += share
    return sorted(shares.items(), key=lambda entry: -entry[1])
