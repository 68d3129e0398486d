"""Finds what each step copies although the step before copied it too: RepeatedCopyFacts."""

from __future__ import annotations

from statistics import median

from perfdoctor.facts.decode import location
from perfdoctor.facts.registry import fact
from perfdoctor.facts.user_source.parse import Sources
from perfdoctor.facts.user_source.update_dependence import only_reported
from perfdoctor.model.change import Estimate
from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.measured import LineCost, Location, Phase, StackFacts
from perfdoctor.model.missing import Missing
from perfdoctor.runs.types import RankRecords
from perfdoctor.wire.events.copies import CopiesLineEvent, CopiesLookEvent
from perfdoctor.wire.events.script import DeviceEvent

FEW = 2  # sampled steps: one alone may have been odd


@dataclass(frozen=True)
class CopyingLine:
    """A line that copies the same tensors or arrays in every step."""

    at: Location
    share: float  # of a sampled step, in the calls that copy; the median
    bytes: float  # that they write in a step
    calls: float  # a step
    names: tuple[str, ...]  # of torch's functions, costliest first
    phase: Phase | None = None  # in which stack samples saw the line most; None: nowhere
    cost: LineCost | None = None  # what they saw there: with the Python around the calls
    weights: bool = False  # mostly of parameters that are trained
    gradients: bool = False  # mostly of their gradients
    reported: bool = False  # the source shows that no update depends on those copies


@dataclass(frozen=True)
class RepeatedCopyFacts:
    """Copies of what the step before copied too, whatever has changed in there since."""

    share: Estimate  # of a sampled step: the least, the median and the largest
    bytes: float  # written in a step, the median
    lines: tuple[CopyingLine, ...]  # costliest first
    samples: int  # steps


@fact
def repeated_copy_facts(
    rank: RankRecords, stacks: StackFacts | Missing | None, sources: Sources
) -> RepeatedCopyFacts | Missing | None:
    """What the sampled steps copied, or None with too few of them to tell."""
    looks = [event for event in rank.of(CopiesLookEvent) if event.look is not None and event.step_s > 0]
    if len(looks) < FEW:
        only = "copies are compared from step to step only where training runs on the CPU"
        return Missing(only) if rank.of(DeviceEvent) else None
    shares = sorted(min(1.0, event.seconds / event.step_s) for event in looks)
    found: dict[Location, list[CopiesLineEvent]] = {}
    for event in rank.of(CopiesLineEvent):
        at = location(event.at)
        if at is not None:
            found.setdefault(at, []).append(event)
    lines = [_line(sources.shown(at) or at, events, looks, stacks, sources) for at, events in found.items()]
    return RepeatedCopyFacts(
        share=Estimate(shares[0], median(shares), shares[-1]),
        bytes=median(event.bytes for event in looks),
        lines=tuple(sorted(lines, key=lambda line: -line.share)),
        samples=len(looks),
    )


def _line(
    at: Location,
    events: list[CopiesLineEvent],
    looks: list[CopiesLookEvent],
    stacks: StackFacts | Missing | None,
    sources: Sources,
) -> CopyingLine:
    """One line in all sampled steps; it copied nothing in those that do not name it."""
    by_look = {event.look: event for event in events}
    there = [(by_look.get(look.look), look.step_s) for look in looks]
    phase, cost = _seen(at, stacks)
    weights, gradients = events[-1].weights, events[-1].gradients
    return CopyingLine(
        at=at,
        share=min(1.0, median(event.seconds / step_s if event else 0.0 for event, step_s in there)),
        bytes=median(event.bytes if event else 0 for event, _ in there),
        calls=median(event.calls if event else 0 for event, _ in there),
        names=tuple(str(name) for name in events[-1].names),
        phase=phase,
        cost=cost,
        weights=weights,
        gradients=gradients,
        reported=(weights or gradients) and only_reported(sources, at),
    )


def _seen(at: Location, stacks: StackFacts | Missing | None) -> tuple[Phase | None, LineCost | None]:
    """Where stack samples saw a line most."""
    if not isinstance(stacks, StackFacts):
        return None, None
    same = [
        (phase, line)
        for phase, lines in stacks.phases.items()
        for line in lines
        if (line.at.file, line.at.line) == (at.file, at.line)
    ]
    return max(same, key=lambda seen: seen[1].share, default=(None, None))
