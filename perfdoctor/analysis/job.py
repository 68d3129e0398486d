"""All ranks of a job become JobFacts: each one's step, who waits for whom and why, what they exchange.

Ranks come one at a time, and little is kept of each: a thousand of them do not fit into memory together.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

import numpy as np

from perfdoctor import ended
from perfdoctor.analysis import late, steps
from perfdoctor.analysis.exchange import Flow, exchange_facts, flow_of, in_one
from perfdoctor.analysis.nodes import Node, node_of
from perfdoctor.analysis.records import Json, Window, number, whole
from perfdoctor.analysis.skew import Matcher, Skew, calls_of, spent
from perfdoctor.analysis.summary import step_facts
from perfdoctor.job import JobFacts, RankFacts
from perfdoctor.model import Bottleneck, Phase
from perfdoctor.recorded import RankRecords

CROWD = 0.25  # of the usable cores kept busy by others: from here on times are not those of a quiet machine
PARTLY = 0.1  # of the blocked time: from here on it is said what was not compared


class Job(Protocol):
    """What is asked of a job of many ranks; `notes` are complete once `each` has been through."""

    @property
    def world(self) -> int: ...
    @property
    def missing(self) -> Sequence[int]: ...
    @property
    def failures(self) -> Sequence[Json]: ...
    @property
    def stalled(self) -> Mapping[int, str]: ...
    @property
    def notes(self) -> Sequence[str]: ...
    @property
    def attempt(self) -> int: ...
    def each(self) -> Iterator[RankRecords]: ...


@dataclass(frozen=True)
class _Seen:
    """What is kept of one rank."""

    facts: RankFacts
    flow: Flow | None
    wrapper: Json
    habits: late.Habits
    host: Node
    world: int  # ranks of the largest group that it exchanged in


def job_facts(job: Job) -> JobFacts | None:
    """What all ranks show together, or None where there is only one."""
    matcher = Matcher(job.world)
    hosts: dict[tuple[str, str, str], Node] = {}
    seen = [_look(own, job.world, matcher, hosts) for own in job.each()]
    world = max([job.world, *(one.world for one in seen)])
    if world < 2 or not seen:
        return None
    skew = matcher.compare()
    ranks = _with_ends(_with_skew(seen, skew), job)
    trained = [rank for rank in ranks if rank.steps]
    shown = min(trained or ranks, key=lambda rank: rank.rank)
    flows = [one.flow for one in seen if one.flow is not None]
    wrapper: Json = next((one.wrapper for one in seen if one.wrapper), {})
    habits = {one.facts.rank: one.habits for one in seen}
    found = late.late_rank(skew, [habits[rank] for rank in skew.ranks]) if skew is not None else None
    exchange = exchange_facts(flows, trained, skew, world, wrapper)
    crowded_s = next((_crowded_s(shown, one.host) for one in seen if one.facts.rank == shown.rank), 0.0)
    return JobFacts(
        world=world,
        ranks=tuple(ranks),
        nodes=tuple(dict.fromkeys(rank.node for rank in ranks)),
        missing=tuple(job.missing),
        late=found,
        exchange=exchange,
        skew=skew.over_time() if skew is not None else (),
        matched=skew.count if skew is not None else 0,
        shown=shown.rank,
        waits=_waits(skew, shown),
        crowded_s=crowded_s * in_one(exchange) if exchange is not None else 0.0,
        attempt=job.attempt,
        clock_error_s=skew.clock_error_s if skew is not None else None,
        notes=(*job.notes, *_notes(seen, skew, world)),
    )


def _look(own: RankRecords, world: int, matcher: Matcher, hosts: dict[tuple[str, str, str], Node]) -> _Seen:
    """One rank; its collectives go to the matcher."""
    wrapper = next(iter(own.of("wrapper")[-1:]), {})
    found = steps.find(own.steps)
    if found is None:
        nothing = late.Habits(own.node, 0.0, None, None, None, None)
        return _Seen(
            RankFacts(own.rank, own.node, 0, 0.0, {}), None, wrapper, nothing, Node({}, {}, None, {}, {}), 1
        )
    found = steps.settled(found)
    step = step_facts(found, None, None)
    key = own.node, str(own.run.get("id")), str(own.run.get("pid"))
    if key not in hosts:
        hosts[key] = node_of(own.host, Window.of(found))
    host = hosts[key]
    calls = calls_of(own.collectives, found, world)
    if calls is not None:
        matcher.add(own.rank, own.node, calls, spent(found))
    samples = float(found.counts["samples"].sum()) / float(found.weight.sum())
    facts = RankFacts(
        rank=own.rank,
        node=own.node,
        steps=step.count,
        mean_s=step.mean_s,
        seconds=step.seconds,
        moving_s=step.seconds.get(Phase.GRAD_SYNC, 0.0),
        data_cores=host.data_cores.get(own.rank),
        delay=host.delay.get(own.rank),
        inside=_inside(own),
    )
    habits = late.Habits(
        own.node,
        step.mean_s,
        step.process_cpu_s,
        samples or None,
        facts.delay,
        facts.data_cores,
        host.available,
    )
    flow = flow_of(calls, found) if calls is not None else None
    largest = int(own.collectives["ranks"].max()) if calls is not None and own.collectives is not None else 1
    return _Seen(facts, flow, wrapper, habits, host, largest)


def _crowded_s(rank: RankFacts, host: Node) -> float:
    """Of a rank's moving, per step: its threads had no core, for other programs had them.

    They ran for so long beside the training thread, and lack a core as often as that does when it wants one.
    """
    if host.strangers < CROWD:
        return 0.0
    lacked_s = host.beside.get(rank.rank, 0.0) * host.stretch.get(rank.rank, 0.0) * rank.mean_s
    return min(rank.moving_s, lacked_s)


def _with_skew(seen: Sequence[_Seen], skew: Skew | None) -> list[RankFacts]:
    """The ranks with their waiting, and how often and by how much each came last."""
    if skew is None:
        return [one.facts for one in seen]
    last = skew.last
    ordered = np.sort(skew.blocked_s, axis=0)
    behind_s = np.median(ordered[1:], axis=0) - ordered[0]
    count = np.bincount(last, minlength=len(skew.ranks))
    sums_s = np.bincount(last, weights=behind_s, minlength=len(skew.ranks))
    shares = skew.waiting_share()
    rows = {rank: row for row, rank in enumerate(skew.ranks)}
    found = []
    for one in seen:
        rank, row = one.facts, rows.get(one.facts.rank)
        if row is None or one.flow is None:
            found.append(rank)
            continue
        synced_s = rank.seconds.get(Phase.GRAD_SYNC, 0.0)
        waiting_s = float(shares[row]) * (1.0 - one.flow.smaller) * synced_s
        found.append(
            replace(
                rank,
                waiting_s=waiting_s,
                moving_s=synced_s - waiting_s,
                last=int(count[row]),
                behind_s=float(sums_s[row] / count[row]) if count[row] else 0.0,
            )
        )
    return found


def _waits(skew: Skew | None, shown: RankFacts) -> dict[Bottleneck, float]:
    """The shown rank's waiting by class; it adds up to its `waiting_s`."""
    if skew is None or shown.rank not in skew.ranks:
        return {}
    charged = late.waits(skew, shown.rank)
    total_s = sum(charged.values())
    if total_s <= 0:
        return {}
    return {kind: value_s / total_s * shown.waiting_s for kind, value_s in charged.items()}


def _notes(seen: Sequence[_Seen], skew: Skew | None, world: int) -> list[str]:
    notes = []
    recorded = sum(one.flow is not None for one in seen)
    if recorded == 1:
        notes.append(
            f"of {world} ranks one recorded its exchanges: waiting for another cannot be told from moving"
        )
    elif recorded and skew is None:
        notes.append("no exchange was found on every rank: waiting for another cannot be told from moving")
    if skew is not None and skew.left_out:
        named = ", ".join(str(rank) for rank in skew.left_out[:6])
        notes.append(f"too little of rank {named} to hold it against the others")
    smaller = [one.flow.smaller for one in seen if one.flow is not None]
    if smaller and float(np.median(smaller)) >= PARTLY:
        share = f"{float(np.median(smaller)):.0%} of the time in collectives"
        notes.append(f"{share} is in groups of fewer ranks, or shows no order: it counts as moving")
    return notes


# ---------------------------------------------------------------- how ranks ended


def _with_ends(ranks: Sequence[RankFacts], job: Job) -> list[RankFacts]:
    """The ranks with how they ended, and where they were when no step ended any more, if that was seen."""
    ends = {}
    for failure in job.failures:
        rank = whole(failure.get("rank"))
        if rank is not None and failure.get("attempt") in (None, job.attempt):
            ends[rank] = ended.words(failure)
    return [
        replace(rank, ended=ends.get(rank.rank), inside=rank.inside or job.stalled.get(rank.rank))
        for rank in ranks
    ]


def _inside(own: RankRecords) -> str | None:
    """The collective that a rank was in when its record ended."""
    if own.now is None:
        return None
    last = number(own.host[-1].get("t_ns")) if len(own.host) else 0.0
    since_s = ((number(own.run.get("end_ns")) or last) - number(own.now.get("begin_ns"))) / 1e9
    size = number(own.now.get("bytes"))
    told = str(own.now.get("op") or "collective")
    if size:
        told += f" of {size / 1e6:.1f} MB" if size >= 1e5 else f" of {size / 1e3:.1f} kB"
    return f"{told} for {since_s:.0f} s" if since_s >= 1 else told
