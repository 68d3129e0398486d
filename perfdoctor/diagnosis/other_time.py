"""Charges to classes what no phase of the step tells: the time that no wrapper of the probe is around."""

from __future__ import annotations

from perfdoctor.model.concluded import Bottleneck, OtherTime, class_of
from perfdoctor.model.measured import Phase, StackFacts, StepFacts

COMPUTING = (Phase.FORWARD, Phase.BACKWARD, Phase.OPTIMIZER, Phase.VALIDATION)


def computing(step: StepFacts) -> float:
    """The share of wall time in phases that compute."""
    return sum(step.share(phase) for phase in COMPUTING)


def other_time(step: StepFacts, stacks: StackFacts | None) -> OtherTime:
    """Such time by the kinds of its lines; the host's where none was sampled."""
    classes = dict.fromkeys(Bottleneck, 0.0)
    lines = stacks.phases.get(Phase.OTHER, ()) if stacks else ()
    sampled = sum(line.share for line in lines)
    if not sampled:
        classes[Bottleneck.HOST] = step.share(Phase.OTHER)
        return OtherTime(classes)
    # the timers charge what lies between forward and backward to computing; its lines tell what it was
    between = min(max(0.0, sampled - step.share(Phase.OTHER)), computing(step))
    other = step.share(Phase.OTHER) + between
    for line in lines:
        classes[class_of(Phase.OTHER, line.kind)] += other * line.share / sampled
    return OtherTime(classes, between)
