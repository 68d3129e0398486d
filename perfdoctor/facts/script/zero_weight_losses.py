"""Tells which parts of the model are computed for a loss whose weight is zero: ZeroWeightLossFacts."""

from __future__ import annotations

import math
from statistics import median

from perfdoctor.facts.decode import location
from perfdoctor.facts.registry import fact
from perfdoctor.facts.steps.span import MeasuredSpan
from perfdoctor.facts.user_source.parse import Sources
from perfdoctor.model.change import Estimate
from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.measured import Location
from perfdoctor.model.missing import Missing
from perfdoctor.wire.events.script import DeviceEvent
from perfdoctor.wire.events.training import ModuleCallsEvent
from perfdoctor.wire.events.zero_weight_losses import ZeroWeightLossEvent

FEW = 3  # sampled steps: fewer do not tell what every step does
SURE = 2  # of them in a row, up to the last one: what begins as zeros gets gradients with the first update


@dataclass(frozen=True)
class ZeroWeightLossFacts:
    """What is called although only zeros come back to it."""

    module: str  # the costliest, as its class is called
    share: float  # of a sampled step, those calls; the median
    of_called: float  # of the time of all calls of models that record gradients (0..1)
    part: Estimate  # of the run, for which this has been so
    zeros: int  # sampled steps in a row that show it, up to the last one
    samples: int
    at: tuple[Location, ...] = ()  # the lines that call them, costliest first


@fact
def zero_weight_loss_facts(
    trained_on: list[DeviceEvent],
    events: list[ZeroWeightLossEvent],
    looks: list[ModuleCallsEvent],
    span: MeasuredSpan,
    sources: Sources,
) -> ZeroWeightLossFacts | Missing | None:
    """What the last sampled steps have in common, or None where all gradients are some."""
    if len(looks) < FEW:
        return None
    if trained_on:
        return Missing("gradients of zeros are looked for only where training runs on the CPU")
    by_look: dict[int | None, list[ZeroWeightLossEvent]] = {}
    for event in events:
        by_look.setdefault(event.look, []).append(event)
    zeros = 0
    while zeros < len(looks) and looks[-1 - zeros].look in by_look:
        zeros += 1
    if zeros < SURE or span.seconds <= 0:
        return None
    seen = [(look, by_look[look.look]) for look in looks[-zeros:] if look.seconds > 0]
    if not seen:
        return None
    last = max(seen[-1][1], key=lambda event: event.seconds)
    lines = [sources.shown(location(event.at)) for event in sorted(seen[-1][1], key=lambda one: -one.seconds)]
    earlier = looks[-zeros - 1].t_ns if zeros < len(looks) else span.begin_ns
    return ZeroWeightLossFacts(
        module=last.module or "module",
        share=min(1.0, median(_seconds(same) / look.seconds for look, same in seen)),
        of_called=min(1.0, median(_seconds(same) / max(one.called_s for one in same) for _, same in seen)),
        part=_part(span, earlier, looks[-zeros].t_ns),
        zeros=zeros,
        samples=len(looks),
        at=tuple(dict.fromkeys(line for line in lines if line is not None)),
    )


def _seconds(events: list[ZeroWeightLossEvent]) -> float:
    return sum(event.seconds for event in events)


def _part(span: MeasuredSpan, earlier_ns: int, first_ns: int) -> Estimate:
    """The share of the run behind a moment that lies between two sampled steps.

    Each comes after twice as many steps as the one before: any factor between them is as likely.
    """
    before, until = (
        min(1.0, max(0.0, (t_ns - span.begin_ns) / 1e9 / span.seconds)) for t_ns in (earlier_ns, first_ns)
    )
    return Estimate(1 - until, 1 - math.sqrt(before * until), max(1 - until, 1 - before))
