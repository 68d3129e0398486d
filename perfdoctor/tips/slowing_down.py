"""Steps take longer and longer as the run goes on.

## What it sees
The time of a step grows all through the run, and the growth is explained: one phase does more and more work
(often a line that goes through a list of all past values, or writes all of it anew), the machine reads memory
back from swap, or the clock of the processor falls. Steps that only wait longer for a core, because other
programs run, are not reported, and neither are steps whose phases all grow alike, as with longer and longer
inputs.

## By hand
    recent = collections.deque(maxlen=1000)   # instead of a list that never ends
    mean += (value - mean) / step             # a running figure instead of one over all values

    file.write(json.dumps(record) + "\\n")   # one line more, instead of the whole history anew

    handle = module.register_forward_hook(...)   # a hook runs until it is removed
    handle.remove()                              # else one more runs for each time that it was registered

Swapping: hold less in memory, or use fewer loader workers. A falling clock: better cooling, or a higher power
limit.

## When not
Where the work of a step has to grow, as with a replay buffer that is still filling up: then it levels off.
"""

from __future__ import annotations

import re

from perfdoctor.facts.host.slowing_down import Cause, SlowingFacts
from perfdoctor.model.change import Change, Effort, removes
from perfdoctor.model.concluded import Advice, Bottleneck, class_of
from perfdoctor.model.measured import PAUSES, RunFacts, StepFacts
from perfdoctor.tips.catalogue import Checked, tip

NOTICEABLE = 0.05  # share of the mean step that was not there at the beginning: less is drift
MIB = 2**20
REMOVED = """\
handle = ...  # what register_..._hook returns: keep it
handle.remove()  # where the hook has done its work, or register it once, before training"""
APPENDED = """\
file = open(path, "a")  # once, before the loop
file.write(json.dumps(record) + "\\n")  # each time only what is new"""
APART = "...  # each time only what is new, in a file of its own; or all of it once, after the loop"
LINES = re.compile(r"\b(?:json|csv)\b|\bwrite(?:lines|row|rows)?\(")  # what writes text


@tip(
    title="Keep the steps from taking longer and longer",
    bottleneck=Bottleneck.HOST,
    effort=Effort.LINES,
    checked=Checked.SCRIPTS,
    rivals=("slow-postprocessing", "logging-every-step"),
)
def slowing_down(run: RunFacts, step: StepFacts, slowing: SlowingFacts) -> Advice | None:
    """Says what makes steps slower, where that is known and takes a noticeable share of the time."""
    if slowing.slower < NOTICEABLE or (why := _why(run, slowing)) is None:
        return None
    first_ms, last_ms = slowing.first_s * 1e3, slowing.last_s * 1e3
    because = [f"steps slowed down from {first_ms:.1f} ms in the beginning to {last_ms:.1f} ms at the end"]
    growth = slowing.bytes_per_step or 0.0
    if growth * step.count >= MIB:
        because.append(f"the process's memory grows by {growth / 1024:,.1f} KiB per step")
    line = slowing.line.at if slowing.line is not None else None
    opens = slowing.opens if slowing.writes else None
    places = (slowing.hook, line, slowing.adds, slowing.called, opens)
    kind = slowing.line.kind if slowing.line is not None else None
    is_log = kind == "logging" and (slowing.writes or slowing.name is not None)
    return Advice(
        because=(because[0], *why, *because[1:]),
        change=_change(step, slowing),
        at=tuple(dict.fromkeys(place for place in places if place is not None)),
        code=_code(slowing),
        bottleneck=class_of(slowing.phase, kind) if slowing.phase is not None else None,
        spares=tuple(place for place in (slowing.called or line,) if place is not None and is_log),
    )


def _why(run: RunFacts, slowing: SlowingFacts) -> list[str] | None:
    """What explains the growth, in sentences; None where nothing does that the user could change."""
    if slowing.cause is Cause.SWAPPING:
        return ["meanwhile the machine reads memory back from swap: it does not hold all that runs on it"]
    if slowing.cause is Cause.CLOCK and slowing.clock_hz is not None:
        first_hz, last_hz = slowing.clock_hz
        return [f"the processor's clock falls from {first_hz / 1e9:.2f} to {last_hz / 1e9:.2f} GHz"]
    if slowing.cause is not Cause.WORK or slowing.phase is None:
        return None
    if run.on_device and slowing.name is None:
        return None  # a phase of the host may only wait for a device that has more and more to do
    told = [f"{slowing.phase_share:.0%} of the growth lies in `{slowing.phase.value}`"]
    if slowing.line is not None:
        text = f": `{slowing.line.at.text}`" if slowing.line.at.text else ""
        told.append(f"line {slowing.line.at.line} takes {min(1.0, slowing.line.share):.0%} of the step{text}")
    if slowing.hook is not None:
        registered = f"a hook that line {slowing.hook.line} registers and nothing removes"
        told.append(f"it is in {registered}: registered anew, as in each validation, all of them run")
    if slowing.name is not None and slowing.adds is not None:
        does = f"writes all of `{slowing.name}` anew" if slowing.writes else f"works on `{slowing.name}`"
        told.append(f"it {does}, which line {slowing.adds.line} makes longer")
    elif slowing.writes:
        told.append("it writes more and more")
    return told


def _change(step: StepFacts, slowing: SlowingFacts) -> Change | None:
    """What goes if steps stay as at first; where a list is known, its line, at most all of the phase."""
    if slowing.cause is not Cause.WORK or slowing.phase is None:
        return None
    paused = sum(step.share(phase) for phase in PAUSES)
    slower = slowing.slower * (1 - paused)
    if slowing.name is None or slowing.line is None:
        return removes(slower / 2, slower, slowing.slower)  # at best, pauses have grown by the same
    likely = max(slower, min(1.0, slowing.line.share))
    return removes(slower / 2, likely, max(likely, step.share(slowing.phase)))


def _code(slowing: SlowingFacts) -> str | None:
    """The line's own cure, where one is known."""
    if slowing.writes and slowing.line is not None:
        return APPENDED if LINES.search(slowing.line.at.statement or "") else APART
    if slowing.name is not None:
        return (
            f"{slowing.name} = collections.deque(maxlen=1000)  # or a running figure that each step updates"
        )
    return REMOVED if slowing.hook else None
