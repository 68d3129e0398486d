"""Finds tensors that each step copies to the device although they never change: ConstantCopyFacts."""

from __future__ import annotations

from dataclasses import replace
from statistics import median_low

from perfdoctor.facts.decode import location
from perfdoctor.facts.device.device import US_PER_S, CopyFacts, DeviceFacts
from perfdoctor.facts.device.small_copies import many_small
from perfdoctor.facts.device.timed_copies import PAGEABLE
from perfdoctor.facts.registry import fact
from perfdoctor.facts.user_source.parse import Sources
from perfdoctor.model.change import Estimate
from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.measured import ConstantCopyLine, Location, Phase, StepFacts
from perfdoctor.model.missing import Missing
from perfdoctor.runs.types import RankRecords
from perfdoctor.trace.results import IdleCause
from perfdoctor.wire.events.constant_copies import ConstantCopiesLineEvent, ConstantCopiesLookEvent

FEW = 2  # pairs of steps: in one alone a batch may have come twice by chance
SURE = 0.5  # of what goes, if the host is late for other reasons too


@dataclass(frozen=True)
class CopiedConstants:
    """Those that looking at pairs of steps found."""

    lines: tuple[ConstantCopyLine, ...] = ()
    samples: int = 0  # pairs
    timed: float = 0.0  # share of a looked-at step that the host takes for them


@dataclass(frozen=True)
class ConstantCopyFacts:
    """What copying them takes of a step."""

    lines: tuple[ConstantCopyLine, ...]  # costliest first
    samples: int  # pairs of steps
    share: Estimate
    by_window: bool  # else by the timers alone


@fact
def copied_constants(rank: RankRecords, sources: Sources) -> CopiedConstants:
    """The lines; none with too few pairs to tell."""
    looks = rank.of(ConstantCopiesLookEvent)
    pairs = [event for event in looks if event.look is not None and event.step_s > 0]
    if len(pairs) < FEW:
        return CopiedConstants()
    found: dict[Location, dict[int, ConstantCopiesLineEvent]] = {}
    for event in rank.of(ConstantCopiesLineEvent):
        at = location(event.at)
        if at is not None and event.look is not None:
            found.setdefault(at, {})[event.look] = event
    lines = (_line(sources.shown(at) or at, by_look, pairs) for at, by_look in found.items())
    taken = [
        sum(by_look[pair.look].seconds for by_look in found.values() if pair.look in by_look) / pair.step_s
        for pair in pairs
    ]
    return CopiedConstants(
        tuple(line for line in lines if line.count), len(pairs), min(1.0, median_low(taken))
    )


def _line(
    at: Location, by_look: dict[int, ConstantCopiesLineEvent], pairs: list[ConstantCopiesLookEvent]
) -> ConstantCopyLine:
    """One line in all pairs; it copied nothing that stays the same in those that do not name it."""
    there = [by_look.get(pair.look) if pair.look is not None else None for pair in pairs]
    return ConstantCopyLine(
        at=at,
        host_memory="pinned" if all(event.pinned for event in by_look.values()) else "pageable",
        count=median_low(event.copies if event else 0 for event in there),
        bytes=median_low(event.bytes if event else 0 for event in there),
        seconds=median_low(event.seconds if event else 0.0 for event in there),
    )


def of_window(copies: CopyFacts, constants: CopiedConstants) -> tuple[ConstantCopyLine, ...]:
    """The lines as a window saw their copies: of the time of those from the same memory, by their bytes."""
    steps = copies.judged_steps
    if not steps:
        return ()
    seen = []
    for memory in dict.fromkeys(line.host_memory for line in constants.lines):
        lines = [line for line in constants.lines if line.host_memory == memory]
        size, us = _from_memory(copies, memory)
        moved = steps * sum(line.bytes for line in lines)
        if size > 0 and moved > 0:
            us_per_byte = us / max(size, moved)
            seen += [replace(line, seconds=line.bytes * us_per_byte / US_PER_S) for line in lines]
    return tuple(seen)


def _from_memory(copies: CopyFacts, memory: str) -> tuple[float, float]:
    """(bytes, microseconds) of copies to the device from such memory, without many small ones."""
    parts = [(1, use) for use in copies.copies] + [(-1, use) for use in many_small(copies)]
    alike = [(sign, use) for sign, use in parts if (use.direction, use.host_memory) == ("HtoD", memory)]
    return sum(sign * (use.bytes or 0) for sign, use in alike), sum(sign * use.us for sign, use in alike)


@fact
def constant_copy_facts(
    step: StepFacts,
    constants: CopiedConstants,
    device: DeviceFacts | Missing | None,
    copies: CopyFacts | Missing | None,
) -> ConstantCopyFacts | None:
    """What these copies cost by a window, else by the timers; None where there are none."""
    by_window = isinstance(device, DeviceFacts)
    if isinstance(device, DeviceFacts):
        lines = copies.constants if isinstance(copies, CopyFacts) else ()
        share = _share(copies, device) if isinstance(copies, CopyFacts) else 0.0
        estimate = Estimate(SURE * share, share, share)
    else:
        lines = constants.lines
        # A wait in a copy may be one for earlier work of the device.
        timed = min(constants.timed, step.share(Phase.HOST_TO_DEVICE))
        moving = sum(line.bytes for line in lines) / PAGEABLE / step.mean_s if step.mean_s > 0 else 0.0
        estimate = Estimate(0.0, min(timed, moving), timed)
    if not lines:
        return None
    costliest = tuple(sorted(lines, key=lambda line: -line.seconds))
    return ConstantCopyFacts(costliest, constants.samples, estimate, by_window)


def _share(copies: CopyFacts, device: DeviceFacts) -> float:
    """The share in which nothing hides these copies, or the device idles while they block the host."""
    each_us = US_PER_S * (copies.judged_steps or 0)
    us = each_us * sum(line.seconds for line in copies.constants)
    pageable_us = each_us * sum(line.seconds for line in copies.constants if line.host_memory == "pageable")
    _, all_us = _from_memory(copies, "pageable")
    blocking = pageable_us / all_us if all_us else 0.0  # pinned memory holds nobody up
    return min(1.0, us * copies.scale + min(1.0, blocking) * device.idle.get(IdleCause.COPY, 0.0))
