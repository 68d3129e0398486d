"""Tells how often frozen modules compute what they computed before: FrozenFeatureFacts."""

from __future__ import annotations

from math import sqrt

from perfdoctor.facts.decode import location
from perfdoctor.facts.registry import fact
from perfdoctor.facts.steps.span import MeasuredSpan
from perfdoctor.facts.user_source.parse import Sources
from perfdoctor.model.change import Estimate
from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.measured import Location, MemoryFacts, StepFacts
from perfdoctor.model.missing import Missing
from perfdoctor.runs.types import RankRecords
from perfdoctor.wire.events.frozen import FrozenCallsEvent, FrozenRowsEvent
from perfdoctor.wire.events.script import DeviceEvent
from perfdoctor.wire.events.training import ModuleCallsEvent

FEW = 3  # sampled steps: fewer do not tell what every step does
SURE = 3  # updates that were given known rows: fewer leave open by a factor of three how many rows there are
WHOLE = 0.9  # of the updates were looked at: what came again among them is what came again in the run
SAME = 0.95  # of the results that were compared: the others differ by rounding, where batches are others
TWICE = 2.0  # standard deviations of a count of chance


@dataclass(frozen=True)
class FrozenFeatureFacts:
    """Frozen modules whose inputs come again, taken together."""

    module: str  # the costliest of them
    modules: int
    share: float  # of the mean step, their calls
    again: Estimate  # the share of their calls' rows that earlier calls had (0..1)
    different: float  # rows, about
    passes: float  # over these in the run
    row_bytes: float  # of what the costliest returns
    whole: bool  # nearly all rows of the run were looked at
    step_rows: float  # rows of the costliest, a step
    at: tuple[Location, ...] = ()  # the lines that call them, costliest first
    free_bytes: int | None = None  # the least memory that was left; None: not known


@fact
def frozen_feature_facts(
    rank: RankRecords,
    calls: list[FrozenCallsEvent],
    rows: list[FrozenRowsEvent],
    looks: list[ModuleCallsEvent],
    span: MeasuredSpan,
    step: StepFacts,
    sources: Sources,
    memory: MemoryFacts | Missing | None = None,
) -> FrozenFeatureFacts | Missing | None:
    """What frozen modules take whose inputs come again; None where there are none."""
    if not calls:
        only = "what frozen modules are given is compared only where training runs on the CPU"
        return Missing(only) if rank.of(DeviceEvent) else None
    last = {event.number: event for event in rows}
    found = {number: one for number, event in last.items() if (one := _again(event, span.steps)) is not None}
    named = {event.number: event for event in calls}
    found = {number: one for number, one in found.items() if number in named}
    if not found or len(looks) < FEW or step.mean_s <= 0:
        return None
    # Steps without a call were not looked at; how many there are, the sampled ones tell.
    shares = {
        number: last[number].seconds / last[number].updates / step.mean_s * _called(number, calls, looks)
        for number in found
    }
    costliest = sorted(shares, key=lambda number: -shares[number])
    first = costliest[0]
    lines = [sources.shown(location(named[number].at)) for number in costliest]
    again, different, passes, whole = found[first]
    return FrozenFeatureFacts(
        module=named[first].module or "module",
        modules=len(costliest),
        share=min(1.0, sum(shares.values())),
        again=again,
        different=different,
        passes=passes,
        row_bytes=last[first].row_bytes,
        whole=whole,
        step_rows=last[first].rows / last[first].updates,
        at=tuple(dict.fromkeys(line for line in lines if line is not None)),
        free_bytes=memory.available_bytes if isinstance(memory, MemoryFacts) else None,
    )


def _called(number: int, calls: list[FrozenCallsEvent], looks: list[ModuleCallsEvent]) -> float:
    """The share of sampled steps in which a module was called, since it was seen first."""
    seen = {event.look for event in calls if event.number == number and event.look is not None}
    since = {look.look for look in looks if look.look is not None and look.look >= min(seen, default=0)}
    return len(seen & since) / len(since) if since else 0.0


def _again(event: FrozenRowsEvent, steps: float) -> tuple[Estimate, float, float, bool] | None:
    """The share of rows that come again, how many different ones there are, passes, whether all were seen.

    None where rows do not come again, or the module does not return the same for them.
    """
    if event.changed or event.by_chance or event.alike < SAME * event.compared:
        return None
    if event.hits < SURE or not event.pairs or event.part <= 0 or not event.updates:
        return None
    if event.updates >= WHOLE * steps:
        repeated = event.counted - event.different
        again, apart = repeated / event.counted, TWICE * sqrt(repeated) / event.counted
        different = event.different / event.part
        passes = event.counted / event.different
        return Estimate(max(0.0, again - apart), again, min(1.0, again + apart)), different, passes, True
    # Of n rows drawn from N, about n^2 / 2N pairs are alike. In order they come in blocks, each one draw.
    different = event.counted * (event.counted - 1) / 2 / event.pairs / event.part
    total = event.rows / event.updates * steps
    off = TWICE / sqrt(event.hits)
    low, likely, high = (
        max(0.0, 1.0 - different * times / total) for times in (1.0 + off, 1.0, max(0.0, 1.0 - off))
    )
    return Estimate(low, likely, high), different, total / different, False
