"""The private memory of loader workers over time."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from perfdoctor.analysis.records import Json, number, positive, whole

FEW = 4  # readings of a worker: below it, growth after warm-up cannot be told from warm-up

Readings = list[tuple[float, float]]  # (seconds, bytes)


@dataclass(frozen=True)
class WorkerMemory:
    """Sums over the workers that were read often enough."""

    workers: int
    first_bytes: float
    last_bytes: float
    seconds: float  # from the first reading to the last, of the worker watched longest
    late_bytes_per_s: float  # over the second half of each worker's readings


def worker_memory(samples: Sequence[Json]) -> WorkerMemory | str | None:
    """How the workers' own memory grew; None where there were no workers.

    Private pages tell all of it, those copied from the training process too, but are counted seldom, because
    that is dear. Where they were counted too seldom, pages without a file behind them tell what is new.
    """
    private, anonymous = (_readings(samples, key) for key in ("private_bytes", "anonymous_bytes"))
    if not private and not anonymous:
        return None
    known = [own for own in private.values() if len(own) >= FEW]
    known = known or [own for own in anonymous.values() if len(own) >= FEW]
    if not known:
        return "the workers' memory was read too seldom to see it grow"
    return WorkerMemory(
        workers=len(known),
        first_bytes=sum(own[0][1] for own in known),
        last_bytes=sum(own[-1][1] for own in known),
        seconds=max(own[-1][0] - own[0][0] for own in known),
        late_bytes_per_s=sum(_slope(own[len(own) // 2 :]) for own in known),
    )


def _readings(samples: Sequence[Json], key: str) -> dict[int, Readings]:
    """Each worker's readings of a figure that is repeated in the samples until it is read again."""
    found: dict[int, Readings] = defaultdict(list)
    for entry in samples:
        for proc in entry.get("procs") or ():
            pid, size = whole(proc.get("pid")), positive(proc.get(key))
            if proc.get("role") != "worker" or pid is None:
                continue
            own = found[pid]
            if size is not None and (not own or own[-1][1] != size):
                own.append((number(entry.get("t_ns")) / 1e9, size))
    return found


def _slope(readings: Readings) -> float:
    (begin_s, first), (end_s, last) = readings[0], readings[-1]
    return (last - first) / (end_s - begin_s) if end_s > begin_s else 0.0
