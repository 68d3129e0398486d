"""Hand-made ranks of one job: rows of steps and collectives, from when each rank comes and how long data move."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from perfdoctor.facts.ranks.job import RankComparison
from perfdoctor.model.note import Remark
from perfdoctor.model.ranks import JobFacts
from perfdoctor.runs.types import JobRecords, RankRecords
from tests.support.jobs import COLLECTIVE_LAYOUT
from tests.support.records import MS, rows, update

STEPS = 40
GROUP = 1  # the number of a rank's own group
SPENT = {"data_wait": 1.0, "forward": 4.0, "backward": 5.0}  # milliseconds of every step


@dataclass
class Team:
    """A job whose ranks are in memory."""

    ranks: Sequence[RankRecords]
    world: int
    missing: Sequence[int] = ()
    exits: Mapping[int, str] = field(default_factory=dict)
    hangs: Mapping[int, str] = field(default_factory=dict)
    notes: Sequence[Remark] = ()
    attempt: int = 0


def job_facts(team: Team) -> JobFacts | None:
    """What its ranks show together, compared one after the other."""
    comparison = RankComparison(team.world)
    for records in team.ranks:
        comparison.add(records)
    told = JobRecords(
        team.world, tuple(team.missing), team.exits, team.hangs, team.attempt, tuple(team.notes)
    )
    return comparison.facts(told)


def team(
    *late: Mapping[str, Any],
    steps: int = STEPS,
    moving: float = 2.0,
    hidden: float = 1.0,
    nodes: Sequence[str] = (),
    ahead: Mapping[str, float] | None = None,
    calls: Sequence[Mapping[str, Any]] = ({"op": 1, "flags": 2},),
    noise: float = 0.0,
    **given: Any,
) -> Team:
    """A rank for each of `late`: milliseconds that it spends on a phase more than the others.

    `{"every": 5}` among them: in every fifth step only. `calls` are the collectives of a step, all of which begin and
    end together. `ahead`: seconds that a node's clock shows more.
    """
    random = np.random.default_rng(0)
    spent = [[_spent(own, step, noise * random.standard_normal()) for step in range(steps)] for own in late]
    came = np.array([[sum(one.values()) for one in rank] for rank in spent])
    waited = came.max(axis=0) - came
    names = list(nodes) or ["here"] * len(late)
    ranks = []
    for number, rank in enumerate(spent):
        shift_ms = (ahead or {}).get(names[number], 0.0) * 1e3
        blocked = waited[number] + moving
        table = rows(
            [
                update(float(came[number, step] + blocked[step]), **spent_now, grad_sync=float(blocked[step]))
                for step, spent_now in enumerate(rank)
            ],
            1000.0 + shift_ms,
        )
        ranks.append(_rank(number, names[number], table, blocked, hidden, calls, len(late)))
    return Team(ranks, given.pop("world", len(late)), **given)


def apart(*teams: Team) -> Team:
    """One job of several teams: the ranks of each exchange among themselves, in a group that each rank tells of."""
    found: list[RankRecords] = []
    for team_ in teams:
        members = [len(found) + own.rank for own in team_.ranks]
        told = ({"event": "group", "number": GROUP, "size": len(members), "ranks": members},)
        for number, own in zip(members, team_.ranks, strict=True):
            rows_ = own.collectives.copy()
            rows_["group"][rows_["ranks"] == len(members)] = GROUP
            found.append(replace(own, rank=number, events=told, collectives=rows_))
    return Team(found, len(found))


def _spent(own: Mapping[str, Any], step: int, noise: float) -> dict[str, float]:
    more = {name: ms for name, ms in own.items() if name != "every" and step % own.get("every", 1) == 0}
    told = {name: SPENT.get(name, 0.0) + more.get(name, 0.0) for name in {**SPENT, **more}}
    return told | {"forward": told["forward"] + noise}


def _rank(
    number: int,
    node: str,
    table: Any,
    blocked: Any,
    hidden: float,
    calls: Sequence[Mapping[str, Any]],
    world: int,
) -> RankRecords:
    count = len(table)
    made = np.zeros(count * len(calls), dtype=COLLECTIVE_LAYOUT)
    for place, call in enumerate(calls):
        own = made[place :: len(calls)]
        share = call.get("share", 1.0 / len(calls))
        own["end_ns"] = table["end_ns"] - len(calls) + place
        own["wait_ns"] = blocked * share * MS
        own["begin_ns"] = own["end_ns"] - own["wait_ns"] - round(hidden * MS)
        own["bytes"], own["buckets"] = call.get("bytes", 1_000_000), call.get("buckets", 1)
        own["step"], own["sequence"] = np.arange(count), np.arange(count) * 10 + place
        own["op"], own["flags"], own["ranks"] = call["op"], call.get("flags", 0), call.get("ranks", world)
        own["group"] = GROUP if call.get("ranks", world) < world else 0
    return RankRecords(number, table, None, (), collectives=made, node=node)
