"""Measures how the private memory of loader workers grows: WorkerMemory."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from perfdoctor.facts.decode import Json, as_count, number, positive, processes
from perfdoctor.facts.host.resources import HostSamples
from perfdoctor.facts.registry import fact
from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.missing import Missing

FEW = 4  # readings of a worker: below it, growth after warm-up cannot be told from warm-up

Readings = list[tuple[float, float]]  # (seconds, bytes)


@dataclass(frozen=True)
class WorkerMemory:
    """Sums over the workers that were read often enough and lived at the same time."""

    workers: int
    first_bytes: float
    last_bytes: float
    seconds: float  # from the first reading to the last, of the worker watched longest
    late_bytes_per_s: float  # over the second half of each worker's readings


@fact
def worker_memory(samples: HostSamples) -> WorkerMemory | Missing | None:
    """How the workers' own memory grew; None where there were no workers.

    Private pages tell all of it, those copied from the training process too, but are counted seldom, because
    that is dear. Where they were counted too seldom, pages without a file behind them tell what is new.
    """
    private, anonymous = (_readings(samples, key) for key in ("private_bytes", "anonymous_bytes"))
    if not private and not anonymous:
        return None
    known = [readings for readings in private.values() if len(readings) >= FEW]
    known = known or [readings for readings in anonymous.values() if len(readings) >= FEW]
    if not known:
        return Missing("the workers' memory was sampled too rarely to see growth")
    # Workers that start anew in each epoch give back what those before them took.
    longest = max(known, key=_watched_s)
    known = [each for each in known if each[0][0] < longest[-1][0] and each[-1][0] > longest[0][0]]
    return WorkerMemory(
        workers=len(known),
        first_bytes=sum(readings[0][1] for readings in known),
        last_bytes=sum(readings[-1][1] for readings in known),
        seconds=_watched_s(longest),
        late_bytes_per_s=sum(_slope(readings[len(readings) // 2 :]) for readings in known),
    )


def _readings(samples: Sequence[Json], key: str) -> dict[int, Readings]:
    """Each worker's readings of a figure that is repeated in the samples until it is read again."""
    by_worker: dict[int, Readings] = defaultdict(list)
    for entry in samples:
        for proc in processes(entry):
            pid, size = as_count(proc.get("pid")), positive(proc.get(key))
            if proc.get("role") != "worker" or pid is None:
                continue
            readings = by_worker[pid]
            if size is not None and (not readings or readings[-1][1] != size):
                readings.append((number(entry.get("t_ns")) / 1e9, size))
    return by_worker


def _watched_s(readings: Readings) -> float:
    return readings[-1][0] - readings[0][0]


def _slope(readings: Readings) -> float:
    (begin_s, first), (end_s, last) = readings[0], readings[-1]
    return (last - first) / (end_s - begin_s) if end_s > begin_s else 0.0
