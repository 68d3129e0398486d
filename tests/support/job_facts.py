"""Hand-made facts of jobs of many ranks. Times in milliseconds; what is not given is ordinary."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from perfdoctor.model.concluded import Bottleneck
from perfdoctor.model.measured import Location, Phase
from perfdoctor.model.ranks import GradientSyncFacts, JobFacts, RankFacts, Straggler

STEP_MS = {"data_wait": 1.2, "forward": 30.0, "backward": 52.0, "optimizer": 6.0, "other": 2.0}
MOVING_MS, WAITING_MS, LATE_MS = 5.0, 18.0, 17.6
MATCHED = 400

EXCHANGE = GradientSyncFacts(
    exposed=0.05,
    all=0.24,
    each_s=0.005,
    kind="DistributedDataParallel",
    ranks=8,
    exchanges=1.0,
    buckets=4.0,
    bytes=102_000_000,
    busy_s=0.042,
    moving_s=0.024,
    exposed_s=0.005,
    waiting_s=0.018,
    hidden=0.45,
    bus_bytes_per_s=8.5e9,
    at=Location("/home/ada/digits/train.py", 31, "main", "model = DistributedDataParallel(model)"),
)

SKEW = tuple(0.02 + 0.14 * (part >= 20) + 0.01 * (part % 3) for part in range(40))


def rank(number: int = 0, waiting: float = WAITING_MS, node: str = "node-a", **given: Any) -> RankFacts:
    """A rank that waits `waiting` ms a step for others; `phases` are ms by name."""
    phases = {Phase(name): ms / 1e3 for name, ms in (STEP_MS | given.pop("phases", {})).items()}
    phases[Phase.GRAD_SYNC] = (waiting + MOVING_MS) / 1e3
    fields: dict[str, Any] = {
        "rank": number,
        "node": node,
        "steps": MATCHED,
        "mean_s": sum(phases.values()),
        "seconds": phases,
        "waiting_s": waiting / 1e3,
        "moving_s": MOVING_MS / 1e3,
        "matched": MATCHED,
        "last": 2,
    }
    return RankFacts(**(fields | given))


def culprit(number: int = 3, node: str = "node-a", **given: Any) -> Straggler:
    """Why the others wait for that rank."""
    fields: dict[str, Any] = {
        "ranks": 8,
        "matched": MATCHED,
        "wait": 0.17,
        "step_s": 0.11,
        "last": 0.92,
        "caused": 0.95,
        "behind_s": 0.018,
        "cause": Bottleneck.DATA,
        "phase": Phase.DATA_WAIT,
        "excess_s": LATE_MS / 1e3,
        "why": "waiting for batches takes it 17.60 ms a step longer than the median rank; its loader workers keep "
        "0.4 cores busy, the median rank's 1.6",
        "saved_s": 0.0173,
    }
    return Straggler(**({"rank": number, "node": node} | fields | given))


def job(world: int = 8, nodes: int = 1, slow: int | None = 3, **given: Any) -> JobFacts:
    """A job whose rank `slow` waits longer for batches; the others differ by up to a tenth of a millisecond."""
    hosts = [f"gpu-{number * nodes // world:04}.cluster.example.org" for number in range(world)]
    ranks = [
        rank(number, WAITING_MS - jitter, host, phases={"forward": STEP_MS["forward"] + jitter})
        for number, host in enumerate(hosts)
        for jitter in ((number * 7 % 11) / 100,)
    ]
    if slow is not None:
        late_ms = {"data_wait": STEP_MS["data_wait"] + LATE_MS}
        ranks[slow] = rank(slow, WAITING_MS - LATE_MS, hosts[slow], phases=late_ms, last=368, behind_s=0.018)
    fields: dict[str, Any] = {
        "world": world,
        "ranks": tuple(ranks),
        "nodes": tuple(dict.fromkeys(hosts)),
        "straggler": culprit(slow, hosts[slow], ranks=world, nodes=nodes) if slow is not None else None,
        "gradient_sync": replace(EXCHANGE, ranks=world),
        "skew": SKEW,
        "matched": MATCHED,
        "clock_error_s": 0.0003 if nodes > 1 else None,
    }
    return JobFacts(**(fields | given))


def hung(world: int = 8) -> JobFacts:
    """All ranks wait in an all-reduce for rank 1."""
    healthy = job(world, slow=None)
    ranks = [replace(one, inside=f"all_reduce, step 120, for {61 - one.rank % 3} s") for one in healthy.ranks]
    ranks[1] = replace(ranks[1], inside="train.py:20 (evaluate)")
    return replace(healthy, ranks=tuple(ranks))


def unmatched(world: int = 8) -> JobFacts:
    """No exchange was found on every rank: nobody knows who waits."""
    ranks = [
        replace(one, waiting_s=0.0, moving_s=one.seconds[Phase.GRAD_SYNC], matched=0, last=0)
        for one in job(world, slow=None).ranks
    ]
    return replace(job(world, slow=None), ranks=tuple(ranks), matched=0, skew=(), gradient_sync=None)
