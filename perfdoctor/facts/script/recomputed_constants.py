"""Finds what each step computes again from the same inputs: RecomputedConstantFacts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from statistics import median

from perfdoctor.facts.decode import location
from perfdoctor.facts.host.stack_costs import StackCost, StackCosts, charged_most
from perfdoctor.facts.registry import fact
from perfdoctor.facts.user_source.parse import Sources
from perfdoctor.model.change import Estimate
from perfdoctor.model.concluded import Bottleneck
from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.measured import Location, Phase, StepFacts
from perfdoctor.model.missing import Missing
from perfdoctor.runs.types import RankRecords
from perfdoctor.wire.events.constants import ConstantsLineEvent, ConstantsLookEvent
from perfdoctor.wire.events.script import DeviceEvent

FEW = 2  # sampled steps: one alone may have been odd


@dataclass(frozen=True)
class ConstantLine:
    """A line that computes what it computed before."""

    at: Location
    share: float  # of a sampled step, the median
    names: tuple[str, ...]  # of torch's functions, costliest first
    bottleneck: Bottleneck = Bottleneck.COMPUTE


@dataclass(frozen=True)
class RecomputedConstantFacts:
    """Calls of torch's functions that gave the same from the same inputs in all sampled steps."""

    share: Estimate  # of a sampled step: the least, the median and the largest
    lines: tuple[ConstantLine, ...]  # costliest first
    samples: int  # steps


@fact
def recomputed_constant_facts(
    rank: RankRecords, sources: Sources, step: StepFacts, costs: StackCosts | Missing
) -> RecomputedConstantFacts | Missing | None:
    """What the sampled steps had in common, or None with too few of them to tell."""
    looks = [event for event in rank.of(ConstantsLookEvent) if (event.look or 0) > 1 and event.step_s > 0]
    if len(looks) < FEW:
        only = "calls are compared from step to step only where training runs on the CPU"
        return Missing(only) if rank.of(DeviceEvent) else None
    step_s = {event.look: event.step_s for event in looks}
    shares = sorted(min(1.0, event.seconds / event.step_s) for event in looks)
    found: dict[Location, list[ConstantsLineEvent]] = {}
    for event in rank.of(ConstantsLineEvent):
        at = location(event.at)
        if at is not None and event.look in step_s:
            found.setdefault(at, []).append(event)
    lines = [
        ConstantLine(
            at=sources.shown(at) or at,
            share=min(1.0, median([*by_look.values(), *[0.0] * (len(looks) - len(by_look))])),
            names=tuple(str(name) for name in events[-1].names),
        )
        for at, events in found.items()
        for by_look in [{event.look: event.seconds / step_s[event.look] for event in events}]
    ]
    held = [_held(line, () if isinstance(costs, Missing) else costs.costs, step) for line in lines]
    of_items = [
        line.share for line, less in zip(lines, held, strict=True) if less.bottleneck is Bottleneck.DATA
    ]
    waited = step.seconds.get(Phase.DATA_WAIT, 0.0) / step.mean_s if step.mean_s else 0.0
    too_much = sum(line.share - less.share for line, less in zip(lines, held, strict=True))
    likely = max(0.0, median(shares) - too_much)
    high = shares[-1] - max(0.0, sum(of_items) - waited)  # items take no longer than batches are waited for
    return RecomputedConstantFacts(
        share=Estimate(min(shares[0], likely), likely, max(likely, high)),
        lines=tuple(sorted(held, key=lambda line: -line.share)),
        samples=len(looks),
    )


def _held(line: ConstantLine, costs: Iterable[StackCost], step: StepFacts) -> ConstantLine:
    """The line with no more time than stacks saw there, where it prepares items in the training process.

    A batch makes hundreds of such calls, and in a sampled step each is compared: that takes longer than they.
    """
    here = (line.at.file, line.at.line)
    below = [cost for cost in costs if here in [(frame.file, frame.line) for frame in cost.path]]
    if not below or not step.mean_s or charged_most(below) is not Bottleneck.DATA:
        return line
    seen = sum(cost.seconds for cost in below) / step.mean_s
    return replace(line, share=min(line.share, seen), bottleneck=Bottleneck.DATA)
