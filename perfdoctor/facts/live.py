"""Tells how a run that goes on is now: a LiveNow, of the records of its last seconds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from perfdoctor.facts.decode import Json, as_count, number, positive, sanitized
from perfdoctor.facts.host.resources import HostSamples, busy_cores, growth, memory_facts
from perfdoctor.facts.script.run import run_facts
from perfdoctor.facts.steps import boundaries
from perfdoctor.facts.steps.rollout_share import as_forward
from perfdoctor.model.live import LiveDevice, LiveHost, LiveNow, LiveRank, LiveState
from perfdoctor.model.measured import Marker, MemoryFacts
from perfdoctor.model.missing import Missing
from perfdoctor.runs.live import LiveRecords
from perfdoctor.runs.types import RankRecords, RunRecords
from perfdoctor.runs.unended import SILENT_S

ROLES = ("main", "worker", "other")
# Of a run that nobody can ask whether it lives: its host is sampled once a minute at the least.
LOST_AFTER_S = SILENT_S
GONE_AFTER_S, SAMPLES_MISSED = 5.0, 3.0  # of one whose processes are not there
SILENT_AFTER_S, SILENT_STEPS = 10.0, 5.0  # a rank is silent after so long, and so many of its steps


def now(live: LiveRecords, rollouts: float = 0.0) -> LiveNow:
    """The run as it is. `rollouts`: of passes in eval mode, the share that the report calls forward."""
    records = sanitized(live.recent)
    none = Missing("only the last seconds were read")
    run = run_facts(records, none, None)
    state = _state(live, records)
    if not state.is_over:
        run = replace(run, duration_s=max(run.duration_s, _elapsed_s(records, live.now_epoch_s)))
    return LiveNow(
        run=run,
        state=state,
        ranks=tuple(_rank(rank, live, records.run, state, rollouts) for rank in records.ranks.values()),
        host=_host(records.host) if not state.is_over else None,
        devices=tuple(_devices(records)) if not state.is_over else (),
        steps_per_s=live.steps_per_s,
        silent_s=live.silent_s,
    )


def _state(live: LiveRecords, records: RunRecords) -> LiveState:
    if records.run.get("outcome") != "running":
        return LiveState.ENDED
    silent_after_s = _gone_after_s(records.host) if live.is_gone else LOST_AFTER_S
    if live.silent_s > silent_after_s and not live.outlasts_its_watch:
        return LiveState.LOST
    last = [rank.steps["marker"][-1] for rank in records.ranks.values() if rank.steps is not None]
    if last and all(marker == Marker.END for marker in last):
        return LiveState.UNWATCHED
    return LiveState.TRAINING if any(live.steps.values()) else LiveState.STARTING


def _gone_after_s(samples: Sequence[Json]) -> float:
    """How long nothing may be written where no process is found: it may be in a container of its own."""
    interval_s = positive(samples[-1].get("interval_s")) if samples else None
    return GONE_AFTER_S + SAMPLES_MISSED * (interval_s or 1.0)


def _elapsed_s(records: RunRecords, now_epoch_s: float) -> float:
    began_s = positive(records.run.get("started_epoch_s"))
    return max(0.0, now_epoch_s - began_s) if began_s else 0.0


def _rank(rank: RankRecords, live: LiveRecords, run: Json, state: LiveState, rollouts: float) -> LiveRank:
    """The rank by its last steps, those without a profiler window where there are any."""
    bare = LiveRank(rank.rank, live.steps.get(rank.rank, 0), node=rank.node)
    steps = boundaries.of_rank(rank)
    if steps is None or rank.steps is None:
        return bare
    used = ~steps.disturbed if not steps.disturbed.all() else steps.disturbed
    count, wall_s = float(steps.weight[used].sum()), float(steps.seconds[used].sum())
    if not count or wall_s <= 0:
        return bare
    samples = float(steps.samples[used].sum())
    step_s = wall_s / count
    seconds = {phase: float(values[used].sum()) / count for phase, values in steps.phases.items()}
    silent_s = _silent_s(rank, live, run) if state is LiveState.TRAINING else None
    return replace(
        bare,
        step_s=step_s,
        seconds=as_forward(seconds, rollouts),
        samples_per_s=samples / wall_s if samples else None,
        recent=round(count),
        silent_s=silent_s
        if silent_s is not None and silent_s > max(SILENT_AFTER_S, SILENT_STEPS * step_s)
        else None,
    )


def _silent_s(rank: RankRecords, live: LiveRecords, run: Json) -> float | None:
    """Seconds since the rank's last row; unknown on another node, whose clock counts from another time."""
    host = run.get("host")
    began_s, begin_ns = positive(run.get("started_epoch_s")), positive(run.get("begin_ns"))
    if rank.steps is None or not began_s or not begin_ns:
        return None
    if rank.node != (host.get("name") if isinstance(host, dict) else None):
        return None
    return live.now_epoch_s - began_s - (float(rank.steps["end_ns"][-1]) - begin_ns) / 1e9


def _host(samples: Sequence[Json]) -> LiveHost | None:
    if not samples:
        return None
    rates = {role: growth(samples, "cpu_s", (role,)) for role in ROLES}
    cores = {role: rate for role, rate in rates.items() if rate is not None}
    busy = busy_cores(samples[-1:])
    others = max(0.0, busy[0] - sum(cores.values())) if busy and cores else None
    memory = memory_facts(HostSamples(samples[-1:]))
    known = memory if isinstance(memory, MemoryFacts) else None
    return LiveHost(cores, positive(samples[-1].get("usable_cores")), others, known)


def _devices(records: RunRecords) -> Iterator[LiveDevice]:
    for index, rows in sorted(records.gpus.items()):
        for row in rows[-1:]:
            busy = row.get("utilisation")
            yield LiveDevice(
                index,
                None if busy is None else number(busy),
                as_count(row.get("memory_used_bytes")),
                as_count(row.get("memory_total_bytes")),
                positive(row.get("power_w")),
            )
