"""Ranks of one job held against each other: who comes late into collectives, and what makes it late."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from perfdoctor.analysis.device import DeviceFacts, blamed_shares, device_facts
from perfdoctor.job import JobFacts
from perfdoctor.model import Bottleneck
from perfdoctor.trace.ranks import Together
from perfdoctor.trace.results import RankTrace


@dataclass(frozen=True)
class RanksFacts:
    """The rank that the others wait for most, and what it does longer than they do."""

    late: int
    ranks: int
    matched: int  # collectives found on every rank
    last: int  # of them, entered last by the late rank
    caused: float  # share of all waiting that was for the late rank
    waiting: float  # share of its time that the median other rank waits inside collectives, hidden by nothing
    cause: Bottleneck  # what the late rank does longest in excess of the median rank
    excess_s: float  # that excess, per step; over the whole where no step is marked
    what: str = "collectives"  # that are counted
    saved: float | None = None  # share of the step that goes if it comes when the others do; None: not known
    why: str | None = None  # the excess in words, and what else is different
    node: str | None = None  # where there are several: its own
    whole_node: bool = False  # all ranks of its node are late together
    crowded: bool = False  # others have its cores


def ranks_facts(ranks: Sequence[RankTrace], found: Together | None) -> RanksFacts | None:
    """Who comes late, or None where nobody does or nothing could be matched."""
    if found is None or found.late is None:
        return None
    by_rank = {part.rank: (part, trace) for part, trace in zip(found.ranks, ranks, strict=True)}
    late, late_trace = by_rank.pop(found.late)
    waiting = [_exposed(part.waiting_us, trace) for part, trace in by_rank.values()]
    own = device_facts(late_trace)
    others = [facts for _, trace in by_rank.values() if (facts := device_facts(trace)) is not None]
    all_us = sum(part.caused_us for part in found.ranks)
    if own is None or not others or all_us <= 0:
        return None
    cause, excess_s = _excess(own, others)
    return RanksFacts(
        late=late.rank,
        ranks=len(found.ranks),
        matched=found.matched,
        last=late.last,
        caused=late.caused_us / all_us,
        waiting=median(waiting),
        cause=cause,
        excess_s=excess_s,
    )


def of_job(job: JobFacts) -> RanksFacts | None:
    """What the timers of all ranks tell, or None where none of them is late."""
    late = job.late
    others = [rank for rank in job.ranks if late is not None and rank.rank != late.rank and rank.mean_s > 0]
    if late is None or not others:
        return None
    mean_s = median(rank.mean_s for rank in others)
    return RanksFacts(
        late=late.rank,
        ranks=job.world,
        matched=job.matched,
        last=round(late.last * job.matched),
        caused=late.caused,
        waiting=min(1.0, median(rank.waiting_s / rank.mean_s for rank in others)),
        cause=late.cause,
        excess_s=late.excess_s,
        what="exchanges",
        saved=min(1.0, max(0.0, late.saved_s / mean_s)),
        why=late.why,
        node=late.node if len(job.nodes) > 1 else None,
        whole_node=late.whole_node,
        crowded=late.crowded,
    )


def _exposed(waiting_us: float, trace: RankTrace) -> float:
    """Waiting as a share of a rank's time; what computing hides is no waiting."""
    times = trace.times
    if times is None or times.span_us <= 0:
        return 0.0
    return min(waiting_us, times.exposed_comm_us) / times.span_us


def _excess(own: DeviceFacts, others: Sequence[DeviceFacts]) -> tuple[Bottleneck, float]:
    """The class, other than waiting inside collectives, that takes the late rank longer than the median."""
    excess = {
        kind: _seconds(own, kind) - median(_seconds(other, kind) for other in others)
        for kind in Bottleneck
        if kind is not Bottleneck.NETWORK
    }
    cause = max(excess, key=lambda kind: excess[kind])
    return cause, excess[cause]


def _seconds(device: DeviceFacts, kind: Bottleneck) -> float:
    return blamed_shares(device)[kind] * device.window_s / (device.steps or 1)
