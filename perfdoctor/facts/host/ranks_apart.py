"""Ranks of the job that share the host of the shown one, and have a watcher of their own: RanksApart.

As under srun or mpirun, where each task runs `perfdoctor run`. The samples of one task list its own processes
only: what the others keep busy is told by their own records. Those that are bound to other cores take none.
"""

from __future__ import annotations

from perfdoctor.facts.decode import as_count
from perfdoctor.facts.given import AllRanks
from perfdoctor.facts.host.rank_cores import apart_from
from perfdoctor.facts.registry import fact
from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.missing import Missing
from perfdoctor.runs.types import RankRecords, RunRecords


@dataclass(frozen=True)
class RanksApart:
    """What those ranks take of the host."""

    cores: float | None  # of those that it may run on, that they keep busy; None: not known of all of them


@fact
def ranks_apart(records: RunRecords, rank: RankRecords, ranks: AllRanks | Missing | None) -> RanksApart:
    """The ranks of this host whose records are not in the shown folder."""
    if not isinstance(ranks, AllRanks):
        return RanksApart(0.0)
    job = ranks.job
    here = [one for one in job.ranks if one.node == rank.node]
    elsewhere = apart_from(job, rank.node, records.ranks)
    cores = [one.cores for one in here if one.rank not in records.ranks and one.rank not in elsewhere]
    # As the launcher told; else all that are known to be nowhere else.
    expected = as_count(rank.job.get("local_world")) or job.world - (len(job.ranks) - len(here))
    # A launcher below one watcher has started all ranks of the host, those that left no record, too.
    unseen = len(records.ranks) < 2 and len(here) < expected
    known = [each for each in cores if each is not None]
    return RanksApart(None if unseen or len(known) < len(cores) else sum(known))
