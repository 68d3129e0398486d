"""Builders of facts about the lines of a step, a line each. Times in milliseconds."""

from __future__ import annotations

from typing import Any

from perfdoctor.facts.host.suspects import Suspect
from perfdoctor.model.lines import LineSeconds, StepLines, WaitPart
from perfdoctor.model.measured import Location, Phase

STEP_MS = 10.0


def at(line: int) -> Location:
    """A line of train.py."""
    return Location("train.py", line, "main", f"work({line})")


def suspect(
    share: float,
    phase: Phase,
    *path: int,
    samples: int = 100,
    callers: tuple[int, ...] = (),
    wait: WaitPart | None = None,
    **given: Any,
) -> Suspect:
    """So much of the step below these lines, from outside in."""
    places = tuple(map(at, callers))
    return Suspect(phase, tuple(map(at, path)), share, samples, callers=places, wait=wait, **given)


def lines(*costs: tuple[int, Phase, float], unseen: float = 0.0, **given: Any) -> StepLines:
    """Lines of a step of 10 ms: (line, phase, ms), and how much of `other` was not seen."""
    found = (
        LineSeconds(at(line), phase, ms / 1e3, ms / 1e3, min(1.0, ms / STEP_MS), round(10 * ms), **given)
        for line, phase, ms in costs
    )
    return StepLines(sum(round(10 * ms) for *_, ms in costs), tuple(found), {Phase.OTHER: unseen / 1e3})
