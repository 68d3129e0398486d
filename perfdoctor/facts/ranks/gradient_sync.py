"""What synchronising gradients takes in a step: how much, how fast, and what of it no computing hides."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import median_high

import numpy as np

from perfdoctor.facts.decode import Json, as_count, location
from perfdoctor.facts.device.charged import without_waiting
from perfdoctor.facts.device.device import DeviceFacts
from perfdoctor.facts.given import AllRanks
from perfdoctor.facts.ranks.skew import CollectiveCalls, Members, Skew
from perfdoctor.facts.registry import fact
from perfdoctor.facts.steps.boundaries import Ints, Steps
from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.lines import StepLines
from perfdoctor.model.measured import Location, Phase
from perfdoctor.model.missing import Missing
from perfdoctor.model.ranks import DDP, GradientSyncFacts, RankFacts
from perfdoctor.runs.events import absent
from perfdoctor.runs.types import RankRecords
from perfdoctor.wire.collective_rows import OP_NAMES
from perfdoctor.wire.events.ranks import WrapperEvent

# How often each byte of a call passes the slowest link, by the ring's law (Patarasuk and Yuan, 2009), times
# n: an all-reduce of n ranks sends 2 (n - 1) / n of it, a call that only gathers or only scatters half of
# that.
RING = {"all_reduce": 2.0, "all_gather": 1.0, "reduce_scatter": 1.0, "all_to_all": 1.0}
# A collective of this size takes about as long to start as to transfer: torch's own size of the first bucket.
EVEN_BYTES = 1 << 20
THINNED = 50_000  # collectives of one rank, past which the probe may have kept some steps only


@dataclass(frozen=True)
class Flow:
    """What one rank's collectives come to, per step. Times in seconds."""

    exchanges: float
    buckets: float
    bytes: float
    busy_s: float
    blocked_s: float
    by_kind: Mapping[str, tuple[float, int, float]]
    ddp: bool
    # Of calls that the script makes beside DistributedDataParallel: share of the blocked time, number, bytes.
    own: tuple[float, float, int]
    ranks: int  # of the group that the largest of them is in
    groups: Mapping[Members, float]  # shares of the blocked time, in calls that can be compared
    untimed: bool


def flow_of(calls: CollectiveCalls, groups: Mapping[Members, CollectiveCalls], steps: Steps) -> Flow:
    """One rank's collectives per step of its own; `groups`: those that can be compared, by who takes part."""
    entries = np.unique(calls.entry)
    if len(calls.keys) < THINNED:
        entries = np.flatnonzero(~steps.disturbed & (np.arange(len(steps.disturbed)) > 0))
    count = float(steps.weight[entries].sum()) or 1.0
    blocked_s = float(calls.wait_s.sum())
    by_kind = {}
    for op in np.unique(calls.op).tolist():
        of_kind = calls.op == op
        figures = of_kind.sum(), calls.bytes[of_kind].sum(), calls.busy_s[of_kind & calls.timed].sum()
        by_kind[OP_NAMES.get(op, "other")] = (
            float(figures[0]) / count,
            round(float(figures[1]) / count),
            float(figures[2]) / count,
        )
    passes = float(calls.ddp.sum())
    shares = {
        who: float(compared.wait_s.sum()) / blocked_s if blocked_s > 0 else 0.0
        for who, compared in groups.items()
    }
    return Flow(
        exchanges=(passes or float(len(np.unique(calls.entry)))) / count,
        buckets=float(calls.buckets.sum()) / count,
        bytes=float(calls.bytes.sum()) / count,
        busy_s=_covered_s(calls[calls.timed]) / count,
        blocked_s=blocked_s / count,
        by_kind=by_kind,
        ddp=passes > 0,
        own=_own(calls[calls.ddp == 0], blocked_s, count) if passes else (0.0, 0.0, 0),
        ranks=max(1, int(calls.ranks[calls.bytes.argmax()])),
        groups=shares,
        untimed=not bool(calls.timed.any()),
    )


def _own(calls: CollectiveCalls, blocked_s: float, steps: float) -> tuple[float, float, int]:
    """(Share of the blocked time, calls a step, bytes a step) of calls that no wrapper made."""
    share = float(calls.wait_s.sum()) / blocked_s if blocked_s > 0 else 0.0
    return share, len(calls.keys) / steps, round(float(calls.bytes.sum()) / steps)


def _covered_s(calls: CollectiveCalls) -> float:
    """The time in which any of them is under way."""
    if not len(calls.keys):
        return 0.0
    length_ns = np.asarray(calls.busy_s * 1e9, np.int64)
    begin: Ints = calls.end_ns - length_ns
    order = np.argsort(begin, kind="stable")
    ends = np.maximum.accumulate(calls.end_ns[order])
    before = np.concatenate([begin[order][:1], ends[:-1]])
    return float(np.maximum(0, ends - np.maximum(begin[order], before)).sum()) / 1e9


def sync_facts(
    flows: Sequence[Flow],
    ranks: Sequence[RankFacts],
    skews: Mapping[Members, Skew],
    wrapper: Json,
    shown: RankFacts,
    contention_s: float,
) -> GradientSyncFacts | None:
    """Of the median rank, of two the one that waits, or None where nothing was timed.

    All figures of collectives are that one rank's, so that the kinds and what they exchange are parts of the
    whole. `wrapper`: what the model is wrapped in. `contention_s`, per step, of the shown rank's transfer is
    not the link's: other programs had the cores.
    """
    timed = [flow for flow in flows if not flow.untimed]
    if not timed:
        return None
    flow = sorted(timed, key=lambda flow: (flow.busy_s, flow.blocked_s))[len(timed) // 2]
    busy_s, blocked_s = flow.busy_s, flow.blocked_s
    waiting_s = min(blocked_s, median_high(rank.waiting_s for rank in ranks)) if skews else 0.0
    most = max(skews, key=lambda who: max(flow.groups.get(who, 0.0) for flow in timed), default=None)
    moving_s = busy_s * skews[most].moving_busy if most is not None else busy_s
    kind = wrapper.get("kind")
    named = str(kind) if kind and (flow.ddp or kind in ("FSDP", "FullyShardedDataParallel")) else None
    costliest = max(flow.by_kind, key=lambda name: flow.by_kind[name][2])
    passes = sum(figures[1] * RING.get(name, 0.0) for name, figures in flow.by_kind.items())
    sent = passes * (flow.ranks - 1) / flow.ranks
    own, own_calls, own_bytes = flow.own
    sync = GradientSyncFacts(
        exposed=0.0,
        all=0.0,
        each_s=0.0,
        kind=named or (DDP if flow.ddp else costliest),
        ranks=flow.ranks,
        exchanges=flow.exchanges,
        buckets=flow.buckets,
        bytes=round(flow.bytes),
        busy_s=busy_s,
        moving_s=moving_s,
        exposed_s=blocked_s - waiting_s,
        waiting_s=waiting_s,
        hidden=max(0.0, 1.0 - blocked_s / busy_s) if busy_s > 0 else 0.0,
        bus_bytes_per_s=sent / moving_s if sent and moving_s > 0 else None,
        by_kind=flow.by_kind,
        at=location(wrapper.get("at")),
        own=own,
        own_calls=own_calls,
        own_bytes=own_bytes,
    )
    return of_shown(sync, shown, contention_s * in_one(sync))


def of_shown(sync: GradientSyncFacts, shown: RankFacts, contention_s: float) -> GradientSyncFacts:
    """The same with what it costs the shown rank."""
    moving_s = max(0.0, shown.moving_s - contention_s)
    hidden_s = max(0.0, sync.moving_s - sync.exposed_s)
    if shown.mean_s <= 0:
        return sync
    return replace(
        sync,
        exposed=min(1.0, moving_s / shown.mean_s),
        all=min(1.0, (moving_s + hidden_s) / shown.mean_s),
        each_s=moving_s,
    )


def startup_share(size: float) -> float:
    """The share of a collective's time that does not grow with its bytes."""
    return EVEN_BYTES / (EVEN_BYTES + size)


def in_one(sync: GradientSyncFacts) -> float:
    """The share of a sync's cost that would be left if it were one collective.

    What small ones cost goes with their number; that is their own fault, whoever else is on the cores.
    """
    number = sync.buckets / max(1.0, sync.exchanges)
    if number <= 1:
        return 1.0
    return 1.0 - startup_share(sync.bytes / sync.buckets) * (1.0 - 1.0 / number)


@fact
def gradient_sync_facts(
    device: DeviceFacts | Missing | None,
    ranks: AllRanks | None,
    lines: StepLines | Missing | None,
    rank: RankRecords,
) -> GradientSyncFacts | Missing | None:
    """Gradient sync as the device's window shows it; without one, as the ranks' own timers do.

    Where nothing wraps the model, it is at the line that most of its time is spent below.
    """
    if isinstance(device, DeviceFacts):
        shown = ranks.shown if ranks is not None else None
        waiting = shown.waiting_s / shown.mean_s if shown is not None and shown.mean_s > 0 else 0.0
        wrapper = next(iter(rank.of(WrapperEvent)[-1:]), absent(WrapperEvent))
        sync = of_device(without_waiting(device, waiting))
        return replace(sync, kind=wrapper.kind, at=location(wrapper.at))
    if ranks is None or ranks.shown is None or ranks.job.gradient_sync is None:
        return device
    sync, line = ranks.job.gradient_sync, _calling_line(lines)
    return replace(sync, at=sync.at or line, called_at=line if sync.own else None)


def _calling_line(lines: StepLines | Missing | None) -> Location | None:
    """The costliest line that collectives are called from."""
    every = lines.lines if isinstance(lines, StepLines) else ()
    return next((line.at for line in every if line.phase is Phase.GRAD_SYNC), None)


def of_device(device: DeviceFacts) -> GradientSyncFacts:
    """What a trace tells."""
    return GradientSyncFacts(device.exposed_comm, device.comm, device.per_step_s(device.exposed_comm))


def placed(sync: GradientSyncFacts) -> tuple[Location, ...]:
    """Where the model was wrapped or the collectives are called, if that is known."""
    return (sync.at,) if sync.at is not None else ()


def processes(events: Sequence[Json]) -> int:
    """How many ranks the process group has, as the script's own process saw it."""
    groups = [event for event in events if event.get("event") in ("process_group", "group", "wrapper")]
    return max(
        (as_count(event.get("world")) or as_count(event.get("size")) or 1 for event in groups), default=1
    )
