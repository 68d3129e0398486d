"""Steps take much longer at regular intervals.

## What it sees
Every so many steps, or seconds, a step takes much longer than the others, nearly always, and nearly no other
step does; the additional time lies in one phase and takes a noticeable share of the run. Validation,
checkpoints, logging, pauses of the garbage collector, waits for batches and workers that start anew have
findings of their own and do not count here. The line that nearly all of a stall goes into is named before
the one that leads to it. Stalls of which no line of
yours is known are told only if they lie between the phases, and call no models for the steps that follow, as
a rollout does.

## By hand
    if step % 500 == 0:                       # less often
        hardest = search(pool)

or do the work in a thread or a process of its own, or spread it over the steps.

## When not
Where the long steps are part of the method, such as a search for hard samples whose interval was chosen with
care. Steps that train more (their backward takes longer, too) are not reported.
"""

from __future__ import annotations

from perfdoctor.facts.steps.periodic_stalls import PeriodicStalls
from perfdoctor.model.change import Effort, removes
from perfdoctor.model.concluded import Advice, Bottleneck, class_of
from perfdoctor.model.measured import Location, Phase, RunFacts
from perfdoctor.tips._repeated import repeated
from perfdoctor.tips._waiting import line_waits
from perfdoctor.tips.catalogue import Checked, tip

NOTICEABLE = 0.05  # share of the time
RARER = 10  # times longer between two stalls, as the likely change
SURE = 0.5  # of it goes if the interval is only doubled


@tip(
    title="Do what stalls the steps at regular intervals less often",
    bottleneck=Bottleneck.HOST,
    effort=Effort.LINES,
    checked=Checked.SCRIPTS,
    rivals=("slow-postprocessing", "logging-every-step", "frequent-checkpoints", "gc-pauses"),
)
def periodic_stalls(run: RunFacts, stalls: PeriodicStalls) -> Advice | None:
    """Says how often steps stall, for how long, and in which line."""
    if stalls.share < NOTICEABLE or (stalls.line is None and not _is_plain(run, stalls)):
        return None
    if stalls.line is not None and line_waits(run, stalls.line):
        return None  # for all that was queued since it last did
    often = f"{stalls.every_steps} steps" if stalls.every_steps is not None else f"{stalls.every_s:.1f} s"
    because = [
        f"every {often} a step takes {stalls.stall_s * 1e3:.1f} ms, the others {stalls.usual_s * 1e3:.1f} ms",
        f"{stalls.count} such steps take {stalls.share:.0%} of the training time beyond that",
        f"{stalls.phase_share:.0%} of it lies in `{stalls.phase.value}`",
    ]
    if stalls.line is not None:
        because.append(f"what runs then is {_shown(stalls.line.at)}")
        if stalls.line.inner is not None:
            because.append(f"nearly all of that is {_shown(stalls.line.inner, stalls.line.at.file)}")
    share = stalls.share
    return Advice(
        because=tuple(because),
        change=removes(SURE * share, share * (1 - 1 / RARER), share),
        at=_places(stalls),
        leading=(stalls.line.at,) if stalls.line is not None else (),
        code=_rarer(stalls) if stalls.every_steps is not None else None,
        bottleneck=class_of(stalls.phase, stalls.line.kind if stalls.line is not None else None),
        # The verdict charges what such a line calls line by line: a solver's steps are computing.
        also=(Bottleneck.COMPUTE,) if _may_compute(stalls) else (),
    )


def _places(stalls: PeriodicStalls) -> tuple[Location, ...]:
    """Where the time goes, and what leads there now and then."""
    if stalls.line is None:
        return ()
    return (stalls.line.at,) if stalls.line.inner is None else (stalls.line.inner, stalls.line.at)


def _shown(at: Location, file: str | None = None) -> str:
    """A line in words; `file`: the one that is spoken of."""
    there = f" of {at.file_name}" if file not in {None, at.file} else ""
    return f"line {at.line}{there}" + (f": `{at.text}`" if at.text else "")


def _is_plain(run: RunFacts, stalls: PeriodicStalls) -> bool:
    """Whether stalls without a line are Python between the phases, at an interval that the script sets.

    Passes of a model may be the method's own, such as those that collect experience for the steps that
    follow, and beside a device the host may wait for whatever that does.
    """
    between = stalls.phase is Phase.OTHER and not stalls.collects
    return stalls.every_steps is not None and between and not run.on_device


def _may_compute(stalls: PeriodicStalls) -> bool:
    """Whether the line, of which nothing tells the kind, may call others that do."""
    return stalls.phase is Phase.OTHER and stalls.line is not None and stalls.line.kind is None


def _rarer(stalls: PeriodicStalls) -> str:
    every = RARER * (stalls.every_steps or 1)
    text = repeated(stalls.line.at if stalls.line is not None else None)
    return f"if step % {every} == 0:\n    {text or f'...  # what runs every {stalls.every_steps} steps now'}"
