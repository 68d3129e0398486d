"""A host while its ranks trained: what each of them had of its cores, and what others did."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from perfdoctor.facts.decode import Json, as_count, number, processes
from perfdoctor.facts.host.resources import ENOUGH, busy_cores
from perfdoctor.facts.steps.span import MeasuredSpan
from perfdoctor.model.dataclass import dataclass

# What is added up of each kind of process that a rank has.
WATCHED = {"main": ("cpu_s", "threads_delay_s", "thread_cpu_s", "thread_delay_s"), "worker": ("cpu_s",)}


@dataclass(frozen=True)
class Node:
    """Means over the steps of the first of its ranks; empty where too few samples were taken."""

    data_cores: Mapping[int, float]  # that each rank's workers keep busy
    delay: Mapping[int, float]  # seconds that each rank's threads were ready but had no core, per second
    available: float | None  # the least memory that was left, as a share of all
    stretch: Mapping[int, float]  # seconds that each training thread lacked a core, per second that it ran
    beside: Mapping[int, float]  # cores that the other threads of each rank kept busy
    beside_delay: Mapping[int, float]  # seconds that those were ready but had no core, per second
    strangers: float = 0.0  # share of the usable cores that others than ranks and their workers keep busy
    usable: float = 0.0  # cores

    def without(self, cores: float) -> Node:
        """The same where so many of the cores that seem to be strangers' are those of other ranks."""
        ranks = cores / self.usable if self.usable else 0.0
        return replace(self, strangers=max(0.0, self.strangers - ranks))


NOTHING = Node({}, {}, None, {}, {}, {})


def node_of(samples: Sequence[Json], window: MeasuredSpan) -> Node:
    """What samples of a host tell of its ranks."""
    inside = [entry for entry in samples if window.holds(entry.get("t_ns"))]
    seconds = (number(inside[-1].get("t_ns")) - number(inside[0].get("t_ns"))) / 1e9 if inside else 0.0
    if len(inside) < ENOUGH or seconds <= 0:
        return NOTHING
    rates = {key: grown / seconds for key, grown in _grown(inside).items()}
    busy = busy_cores(inside)
    usable = number(inside[-1].get("usable_cores"))
    ours = sum(rate for (_, _, name), rate in rates.items() if name == "cpu_s")
    delay = {rank: rate for (rank, _, name), rate in rates.items() if name == "threads_delay_s"}
    own_delay = {rank: rate for (rank, _, name), rate in rates.items() if name == "thread_delay_s"}
    ran = {rank: rate for (rank, _, name), rate in rates.items() if name == "thread_cpu_s" and rate > 0}
    return Node(
        data_cores={rank: rate for (rank, role, _), rate in rates.items() if role == "worker"},
        delay=delay,
        available=min(_memory_left(inside), default=None),
        stretch={rank: own_delay.get(rank, 0.0) / rate for rank, rate in ran.items()},
        beside={rank: max(0.0, rates.get((rank, "main", "cpu_s"), 0.0) - rate) for rank, rate in ran.items()},
        beside_delay={rank: max(0.0, rate - own_delay.get(rank, 0.0)) for rank, rate in delay.items()},
        strangers=max(0.0, sum(busy) / len(busy) - ours) / usable if busy and usable else 0.0,
        usable=usable,
    )


def _grown(samples: Sequence[Json]) -> dict[tuple[int, str, str], float]:
    """By how much each rank's figures grew; a process that comes later counts from then on."""
    before: dict[tuple[int, str], float] = {}
    grown: dict[tuple[int, str, str], float] = {}
    for entry in samples:
        for proc in processes(entry):
            rank = as_count(proc.get("rank"))
            if rank is None:
                continue
            role = str(proc.get("role"))
            for name in WATCHED.get(role, ()):
                if proc.get(name) is not None:
                    value, own = number(proc.get(name)), (int(number(proc.get("pid"))), name)
                    key = rank, role, name
                    grown[key] = grown.get(key, 0.0) + max(0.0, value - before.get(own, value))
                    before[own] = value
    return grown


def _memory_left(samples: Sequence[Json]) -> Iterator[float]:
    for entry in samples:
        told = entry.get("memory")
        if isinstance(told, dict) and number(told.get("total_bytes")):
            yield number(told.get("available_bytes")) / number(told.get("total_bytes"))
