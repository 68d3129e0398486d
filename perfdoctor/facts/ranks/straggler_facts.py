"""Ranks of one job held against each other: who comes late into collectives, and what makes it late."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from statistics import median

from perfdoctor.facts.device.charged import attributed_shares
from perfdoctor.facts.device.device import DeviceFacts, device_facts
from perfdoctor.facts.given import AllRanks
from perfdoctor.facts.ranks.dealing import dealing_lines
from perfdoctor.facts.ranks.straggler import MOST, NOTICEABLE
from perfdoctor.facts.registry import fact
from perfdoctor.facts.script.model_and_optimizers import files_of
from perfdoctor.facts.user_source.parse import Sources
from perfdoctor.facts.user_source.project import project_files
from perfdoctor.model.concluded import Bottleneck
from perfdoctor.model.missing import Missing
from perfdoctor.model.ranks import Straggler
from perfdoctor.runs.types import RankRecords
from perfdoctor.trace.measure.collectives import MatchedCollectives
from perfdoctor.trace.results import RankTrace

ONE_RANK = Missing("one rank's window does not tell: perfdoctor trace RUN holds all ranks against each other")


@fact
def straggler_facts(
    device: DeviceFacts | Missing | None, ranks: AllRanks | None, rank: RankRecords, sources: Sources
) -> Straggler | Missing | None:
    """The rank that the others wait for, by the timers of all of them."""
    straggler = ranks.job.straggler if ranks is not None else None
    if straggler is not None:
        return replace(
            straggler,
            lines=tuple(at for line in straggler.lines if (at := sources.shown(line)) is not None),
            dealt=dealing_lines(project_files(files_of(rank), sources), sources)
            if straggler.more_data
            else (),
        )
    return ONE_RANK if isinstance(device, DeviceFacts) else device


def of_traces(ranks: Sequence[RankTrace], together: MatchedCollectives | None) -> Straggler | None:
    """The rank that the others wait for, by the collectives in their traces, where it is a single one."""
    if together is None or together.late is None:
        return None
    by_rank = {part.rank: (part, trace) for part, trace in zip(together.ranks, ranks, strict=True)}
    part, trace = by_rank.pop(together.late)
    device = device_facts(trace)
    others = [facts for _, other in by_rank.values() if (facts := device_facts(other)) is not None]
    all_us = sum(one.caused_us for one in together.ranks)
    most = MOST + (1 - MOST) / len(together.ranks)  # as where timers tell
    if device is None or not others or part.caused_us <= most * all_us:
        return None
    wait = median(_exposed(other.waiting_us, its_trace) for other, its_trace in by_rank.values())
    if wait < NOTICEABLE:
        return None
    per_step = all(one.steps for one in (device, *others))
    cause, excess_s = _excess(device, others, per_step)
    return Straggler(
        rank=part.rank,
        ranks=len(together.ranks),
        matched=together.matched,
        last=part.last / together.matched,
        caused=part.caused_us / all_us,
        wait=wait,
        cause=cause,
        excess_s=excess_s,
        per_step=per_step,
        file=None if trace.rank is not None else 1 + next(n for n, one in enumerate(ranks) if one is trace),
    )


def _exposed(waiting_us: float, trace: RankTrace) -> float:
    """Waiting as a share of a rank's time; what computing hides is no waiting."""
    times = trace.times
    if times is None or times.span_us <= 0:
        return 0.0
    return min(waiting_us, times.exposed_comm_us) / times.span_us


def _excess(own: DeviceFacts, others: Sequence[DeviceFacts], per_step: bool) -> tuple[Bottleneck, float]:
    """The class, other than waiting inside collectives, that takes the late rank longer than the median."""
    excess = {
        kind: _seconds(own, kind, per_step) - median(_seconds(other, kind, per_step) for other in others)
        for kind in Bottleneck
        if kind is not Bottleneck.NETWORK
    }
    cause = max(excess, key=lambda kind: excess[kind])
    return cause, excess[cause]


def _seconds(device: DeviceFacts, kind: Bottleneck, per_step: bool) -> float:
    whole_s = attributed_shares(device)[kind] * device.window_s
    return whole_s / device.steps if per_step and device.steps else whole_s
