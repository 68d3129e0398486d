"""Charges to classes what no phase of the step tells: the time that no wrapper of the probe is around."""

from __future__ import annotations

from dataclasses import replace

from perfdoctor.model.concluded import Bottleneck, OtherTime, class_of
from perfdoctor.model.lines import StepLines
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


def awaited(step: StepFacts, stacks: StackFacts | None) -> float:
    """The share of wall time in `other` that waits for batches of a thread of the script's own."""
    lines = stacks.phases.get(Phase.OTHER, ()) if stacks else ()
    sampled = sum(line.share for line in lines)
    queued = sum(line.share for line in lines if line.kind == "queue")
    return step.share(Phase.OTHER) * queued / sampled if queued else 0.0


def without_waits(other: OtherTime, waits: float) -> OtherTime:
    """What is left of such time where those waits are drawn as waits for data."""
    data = max(0.0, other.classes[Bottleneck.DATA] - waits)
    return replace(other, classes={**other.classes, Bottleneck.DATA: data})


def with_waits(step: StepFacts, stacks: StackFacts | None) -> StepFacts:
    """The step as it is drawn: those waits are data's, as are those for the workers of a loader."""
    waits_s = awaited(step, stacks) * step.mean_s
    if not waits_s:
        return step
    waiting_s, other_s = (step.seconds.get(phase, 0.0) for phase in (Phase.DATA_WAIT, Phase.OTHER))
    seconds = {Phase.DATA_WAIT: waiting_s + waits_s, Phase.OTHER: other_s - waits_s}
    return replace(step, seconds={**step.seconds, **seconds})


def lines_with_waits(lines: StepLines, stacks: StackFacts | None) -> StepLines:
    """The lines as they are drawn: those that wait so are in the phase that their time is drawn in."""
    between = stacks.phases.get(Phase.OTHER, ()) if stacks else ()
    queued = {(line.at.file, line.at.line) for line in between if line.kind == "queue"}
    drawn = (
        replace(line, phase=Phase.DATA_WAIT)
        if line.phase is Phase.OTHER and (line.at.file, line.at.line) in queued
        else line
        for line in lines.lines
    )
    return replace(lines, lines=tuple(drawn))
