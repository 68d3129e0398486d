"""All ranks of a job become JobFacts: each one's step, who waits for whom and why, what they exchange.

Ranks come one at a time, and little is kept of each: a thousand of them do not fit into memory together.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import numpy as np

from perfdoctor.facts.decode import Json, number, processes
from perfdoctor.facts.ranks import straggler as stragglers
from perfdoctor.facts.ranks.gradient_sync import Flow, flow_of, in_one, sync_facts
from perfdoctor.facts.ranks.nodes import NOTHING, Node, node_of
from perfdoctor.facts.ranks.rank_work import input_size, line_seconds
from perfdoctor.facts.ranks.skew import (
    EVERYONE,
    Matcher,
    Members,
    Skew,
    by_group,
    calls_of,
    members_of,
    spent,
)
from perfdoctor.facts.ranks.skew_over_time import median_wait, waits_over_time
from perfdoctor.facts.steps import boundaries, rollouts
from perfdoctor.facts.steps.boundaries import Steps
from perfdoctor.facts.steps.rollout_share import as_forward, share_of
from perfdoctor.facts.steps.span import MeasuredSpan
from perfdoctor.facts.steps.summary import step_facts
from perfdoctor.facts.user_source.parse import Sources
from perfdoctor.model import units
from perfdoctor.model.concluded import Bottleneck
from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.measured import Phase, StepFacts
from perfdoctor.model.note import Note
from perfdoctor.model.ranks import JobFacts, RankFacts, Straggler, WaitsOverTime
from perfdoctor.runs.types import JobRecords, RankRecords

CROWD = 0.25  # of the usable cores kept busy by others: from here on times are not those of a quiet machine
PARTLY = 0.1  # of the blocked time: from here on it is said what was not compared


@dataclass(frozen=True)
class _RankSummary:
    """What is kept of one rank."""

    facts: RankFacts
    flow: Flow | None
    wrapper: Json
    habits: stragglers.Habits
    host: Node
    world: int  # ranks of the largest group that it exchanged in


class RankComparison:
    """Takes the records of one rank after the other, keeps a little of each, and compares them.

    `sources` tells which passes in eval mode training computes with: all ranks run what the first one does.
    """

    def __init__(self, world: int, sources: Sources | None = None) -> None:
        self._world = world
        self._sources = sources
        self._rollouts: float | None = None  # their share of such passes; None: no rank has told
        self._matchers: dict[Members, Matcher] = {}
        self._hosts: dict[tuple[str, str, str], Node] = {}
        self._summaries: list[_RankSummary] = []
        self._skew: Skew | None = None

    def add(self, records: RankRecords) -> None:
        """Summarize one rank; its collectives go to the matchers of their groups."""
        found = boundaries.of_rank(records)
        steps = self._told_apart(records, boundaries.settled(found)) if found is not None else None
        self._summaries.append(_summary(records, steps, self._world, self._matchers, self._hosts))

    def _told_apart(self, records: RankRecords, steps: Steps) -> Steps:
        """The steps with what counts as forward there."""
        if self._rollouts is None and self._sources is not None and steps.phases[Phase.VALIDATION].any():
            self._rollouts = share_of(rollouts.told_apart(records, steps, self._sources)[2])
        return replace(steps, phases=as_forward(steps.phases, self._rollouts or 0.0))

    def facts(self, job: JobRecords) -> JobFacts | None:
        """What all ranks that were added show together, or None where there is only one."""
        summaries = _told_apart(self._summaries)
        world = max([self._world, *(one.world for one in summaries)])
        if world < 2 or not summaries:
            return None
        habits = {one.facts.rank: one.habits for one in summaries}
        skews, straggler = _compare(self._matchers, habits)
        self._skew = skew = next(iter(skews.values()), None)
        ranks = _with_ends(_with_skew(summaries, skews), job)
        trained = [rank for rank in ranks if rank.steps]
        shown = min(trained or ranks, key=lambda rank: rank.rank)
        flows = [one.flow for one in summaries if one.flow is not None]
        wrapper: Json = next((one.wrapper for one in summaries if one.wrapper), {})
        host = next(one.host for one in summaries if one.facts.rank == shown.rank)
        contention_s = _contention_s(shown, host)
        sync = sync_facts(flows, trained, skews, wrapper, shown, contention_s)
        nodes = tuple(dict.fromkeys(rank.node for rank in ranks))
        clock_errors_s = (each.clock_error_s for each in skews.values() if each.clock_error_s is not None)
        return JobFacts(
            world=world,
            ranks=tuple(ranks),
            nodes=nodes,
            missing=job.missing,
            straggler=stragglers.among(straggler, ranks, world, len(nodes)) if straggler else None,
            gradient_sync=sync,
            skew=median_wait(skew) if skew is not None else (),
            matched=skew.count if skew is not None else 0,
            shown=shown.rank,
            waits=_waits(skews.values(), shown),
            contention_s=contention_s * in_one(sync) if sync is not None else 0.0,
            attempt=job.attempt,
            clock_error_s=max(clock_errors_s, default=None),
            notes=(*job.notes, *_notes(summaries, skews, world)),
        )

    @property
    def waits(self) -> WaitsOverTime | None:
        """Who waited for whom over time, in the group that tells who is late, once `facts` was called."""
        return waits_over_time(self._skew) if self._skew is not None else None


def _summary(
    own: RankRecords,
    found: Steps | None,
    world: int,
    matchers: dict[Members, Matcher],
    hosts: dict[tuple[str, str, str], Node],
) -> _RankSummary:
    """One rank; its collectives go to the matchers of the groups that they are in."""
    wrapper = next(iter(own.of("wrapper")[-1:]), {})
    if found is None:
        nothing = stragglers.Habits(own.node, 0.0, None, None, None, None)
        return _RankSummary(RankFacts(own.rank, own.node, 0, 0.0, {}), None, wrapper, nothing, NOTHING, 1)
    step = step_facts(found, None, None)
    key = own.node, str(own.run.get("id")), str(own.run.get("pid"))
    if key not in hosts:
        hosts[key] = node_of(own.host, MeasuredSpan.of(found))
    host = hosts[key]
    calls, flow, largest = calls_of(own.collectives, found), None, 1
    if calls is not None and own.collectives is not None:
        largest = int(own.collectives["ranks"].max())
        groups = by_group(calls, members_of(own.of("group")), max(world, largest))
        flow, before = flow_of(calls, groups, found), spent(found)
        for who, theirs in groups.items():
            matchers.setdefault(who, Matcher(world)).add(own.rank, own.node, theirs, before)
    samples = float(found.samples.sum()) / float(found.weight.sum())
    facts = RankFacts(
        rank=own.rank,
        node=own.node,
        steps=step.count,
        mean_s=step.mean_s,
        seconds=step.seconds,
        moving_s=step.seconds.get(Phase.GRAD_SYNC, 0.0),
        cores=_cores(step, host.data_cores.get(own.rank)),
        data_cores=host.data_cores.get(own.rank),
        delay=host.delay.get(own.rank),
        core_list=_core_list(own),
        inside=_inside(own),
    )
    habits = stragglers.Habits(
        own.node,
        step.mean_s,
        step.process_cpu_s,
        samples or None,
        facts.delay,
        facts.data_cores,
        host.available,
        host.strangers,
        input_size(own),
        line_seconds(own, step),
    )
    return _RankSummary(facts, flow, wrapper, habits, host, largest)


def _core_list(own: RankRecords) -> str | None:
    """The cores that a rank may run on, as the last sample that tells has them."""
    procs = (proc for entry in reversed(own.host) for proc in processes(entry))
    ours = (proc for proc in procs if proc.get("rank") == own.rank)
    told = (proc.get("cores") for proc in ours if proc.get("role") == "main")
    return next((cores for cores in told if isinstance(cores, str)), None)


def _cores(step: StepFacts, of_workers: float | None) -> float | None:
    """Cores that a rank and its workers keep busy; None where its CPU clock was not read."""
    if step.process_cpu_s is None or step.mean_s <= 0:
        return None
    return step.process_cpu_s / step.mean_s + (of_workers or 0.0)


def _told_apart(summaries: Sequence[_RankSummary]) -> list[_RankSummary]:
    """With the ranks of a host that others watched, in folders of their own, taken for no strangers."""
    cores: dict[str, dict[int, float]] = defaultdict(lambda: defaultdict(float))
    for one in summaries:
        cores[one.facts.node][id(one.host)] += one.facts.cores or 0.0
    told = []
    for one in summaries:
        on_node = cores[one.facts.node]
        host = one.host.without(sum(on_node.values()) - on_node[id(one.host)])
        told.append(replace(one, host=host, habits=replace(one.habits, strangers=host.strangers)))
    return told


def _contention_s(rank: RankFacts, host: Node) -> float:
    """Of a rank's moving, per step: its threads had no core, for other programs had them.

    They ran for so long beside the training thread, and lack a core as often as that does when it wants one;
    but for no longer than the kernel counted: threads that a slow link paces want none most of the time.
    """
    if host.strangers < CROWD:
        return 0.0
    lacked = host.beside.get(rank.rank, 0.0) * host.stretch.get(rank.rank, 0.0)
    return min(rank.moving_s, min(lacked, host.beside_delay.get(rank.rank, 0.0)) * rank.mean_s)


def _compare(
    matchers: Mapping[Members, Matcher], habits: Mapping[int, stragglers.Habits]
) -> tuple[dict[Members, Skew], Straggler | None]:
    """What was found on every rank of each group, and who is late: the group that tells it is the first.

    It is that of all ranks, unless it blames nobody and the one that waits most does: a rank that its own
    group waited for makes all of that group late for the others. Of many groups, some seem uneven by chance.
    """
    found = {who: skew for who, matcher in matchers.items() if (skew := matcher.compare()) is not None}
    waited_s = {who: float(skew.waiting_s.sum()) * skew.stands_for for who, skew in found.items()}
    order = sorted(found, key=lambda who: (who != EVERYONE, -waited_s[who]))
    for who in order[: 2 if EVERYONE in found else 1]:
        told = stragglers.find(found[who], [habits[rank] for rank in found[who].ranks])
        if told is not None:
            return {who: found[who]} | {other: found[other] for other in order}, told
    return {who: found[who] for who in order}, None


def _with_skew(seen: Sequence[_RankSummary], skews: Mapping[Members, Skew]) -> list[RankFacts]:
    """The ranks with their waiting, and how often and by how much each came last."""
    found = {one.facts.rank: one.facts for one in seen}
    flows = {one.facts.rank: one.flow for one in seen}
    for who, skew in skews.items():
        ordered = np.sort(skew.blocked_s, axis=0)
        behind_s = np.median(ordered[1:], axis=0) - ordered[0]
        count = np.bincount(skew.last, minlength=len(skew.ranks))
        sums_s = np.bincount(skew.last, weights=behind_s, minlength=len(skew.ranks))
        shares = skew.waiting_share()
        for row, name in enumerate(skew.ranks):
            rank, flow = found[name], flows[name]
            blocked_s = rank.seconds.get(Phase.GRAD_SYNC, 0.0) * (flow.groups[who] if flow else 0.0)
            waiting_s = min(float(shares[row]) * blocked_s, rank.moving_s)
            rank = replace(rank, waiting_s=rank.waiting_s + waiting_s, moving_s=rank.moving_s - waiting_s)
            if not rank.matched:  # else it is in a group that tells more
                mean_s = float(sums_s[row] / count[row]) if count[row] else 0.0
                rank = replace(rank, matched=skew.count, last=int(count[row]), behind_s=mean_s)
            found[name] = rank
    return list(found.values())


def _waits(skews: Iterable[Skew], shown: RankFacts) -> dict[Bottleneck, float]:
    """The shown rank's waiting by class; it adds up to its `waiting_s`."""
    charged: Counter[Bottleneck] = Counter()
    for skew in skews:
        if shown.rank in skew.ranks:
            charged.update(stragglers.waits(skew, shown.rank))
    total_s = sum(charged.values())
    if total_s <= 0:
        return {}
    return {kind: value_s / total_s * shown.waiting_s for kind, value_s in charged.items()}


def _notes(seen: Sequence[_RankSummary], skews: Mapping[Members, Skew], world: int) -> list[Note]:
    notes = []
    recorded = sum(one.flow is not None for one in seen)
    if recorded == 1:
        notes.append(Note("one-rank-recorded", {"world": world}))
    elif recorded and not skews:
        notes.append(Note("no-common-collective"))
    elif skews and EVERYONE not in skews:
        notes.append(Note("compared-in-groups"))
    left_out = [rank for skew in skews.values() for rank in skew.left_out]
    if left_out:
        notes.append(Note("too-little-recorded", {"ranks": left_out}))
    apart = [_apart(one, skews) for one in seen if one.flow is not None]
    if skews and (share := float(np.median(apart))) >= PARTLY:
        notes.append(Note("not-compared", {"share": share}))
    return notes


def _apart(one: _RankSummary, skews: Mapping[Members, Skew]) -> float:
    """The share of a rank's time in collectives that was not compared."""
    groups = one.flow.groups.items() if one.flow is not None else ()
    return 1.0 - sum(share for who, share in groups if who in skews and one.facts.rank in skews[who].ranks)


def _with_ends(ranks: Sequence[RankFacts], job: JobRecords) -> list[RankFacts]:
    """The ranks with how they ended, and where they were when no step ended any more, if that was seen."""
    return [
        replace(rank, ended=job.exits.get(rank.rank), inside=rank.inside or job.hangs.get(rank.rank))
        for rank in ranks
    ]


def _inside(own: RankRecords) -> str | None:
    """The collective that a rank was in when its record ended."""
    if own.now is None:
        return None
    last = number(own.host[-1].get("t_ns")) if len(own.host) else 0.0
    since_s = ((number(own.run.get("end_ns")) or last) - number(own.now.get("begin_ns"))) / 1e9
    moved_bytes = number(own.now.get("bytes"))
    told = str(own.now.get("op") or "collective")
    if moved_bytes:
        told += f" of {units.size(moved_bytes)}"
    return f"{told} for {since_s:.0f} s" if since_s >= 1 else told
