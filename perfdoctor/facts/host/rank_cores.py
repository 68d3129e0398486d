"""Tells with which ranks of its node the shown one shares the cores that it may run on: RankCores.

Ranks are bound to cores by `taskset`, by launchers with an option for it, and by srun and mpirun as a rule.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from perfdoctor.facts.given import AllRanks
from perfdoctor.facts.registry import fact
from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.measured import CpuFacts, RunFacts
from perfdoctor.model.missing import Missing
from perfdoctor.model.ranks import JobFacts, RankFacts
from perfdoctor.runs.types import RankRecords
from perfdoctor.wire.core_list import listed_cores


@dataclass(frozen=True)
class RankCores:
    """Cores of the shown rank, and of ranks that may run on some of them, where other ranks may on none."""

    cores: float
    ranks: int  # that share them, the shown one included

    def each(self, cpu: CpuFacts) -> CpuFacts:
        """The cores that one of these ranks can have to itself, and its part of what others keep busy."""
        part = min(1.0, self.cores / self.ranks / cpu.usable_cores)
        ours = [cores for cores in (cpu.main_cores, cpu.worker_cores) if cores is not None]
        return replace(
            cpu,
            usable_cores=cpu.usable_cores * part,
            whole_cores=cpu.whole_cores * part if cpu.whole_cores is not None else None,
            other_cores=cpu.other_cores * part if cpu.other_cores is not None else None,
            busy_cores=sum(ours) if cpu.busy_cores is not None else None,
        )


@fact
def rank_cores(
    rank: RankRecords, run: RunFacts, cpu: CpuFacts, ranks: AllRanks | Missing | None
) -> RankCores | None:
    """None where all ranks of the node share their cores, or where that is not known."""
    if not isinstance(ranks, AllRanks):
        return None
    cores = _cores_by_rank(ranks.job, rank.node)
    if len(cores) < run.ranks or not all(cores.values()) or rank.rank not in cores:
        return None
    sharing = _sharing(cores, rank.rank)
    if len(sharing) == len(cores):
        return None
    count = len(frozenset().union(*(cores[one] for one in sharing)))
    return RankCores(min(float(count), cpu.usable_cores), len(sharing))


def apart_from(job: JobFacts, node: str, shown: Iterable[int]) -> frozenset[int]:
    """The ranks of a node that may run on no core of these ranks, nor of any that share theirs."""
    cores = _cores_by_rank(job, node)
    if not all(cores.values()):
        return frozenset()
    sharing = frozenset().union(*(_sharing(cores, rank) for rank in shown if rank in cores))
    return frozenset(cores) - sharing if sharing else frozenset()


def on_node(job: JobFacts, rank: RankFacts, usable: float) -> float:
    """The cores of a rank's node, of which it has `usable`: those of all its ranks, where they are bound."""
    cores = _cores_by_rank(job, rank.node)
    if not all(cores.values()) or len(cores.get(rank.rank, ())) != usable:
        return usable
    return float(len(frozenset().union(*cores.values())))


def _cores_by_rank(job: JobFacts, node: str) -> dict[int, frozenset[int]]:
    return {one.rank: listed_cores(one.core_list) for one in job.ranks if one.node == node}


def _sharing(cores: Mapping[int, frozenset[int]], rank: int) -> frozenset[int]:
    """The ranks that a rank shares cores with, those included that share theirs in turn."""
    found, held = frozenset({rank}), cores[rank]
    while more := {one for one, own in cores.items() if own & held} - found:
        found |= more
        held = held.union(*(cores[one] for one in more))
    return found
