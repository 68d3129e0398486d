"""Holds what facts are made from besides a rank's records: functions marked `@fact` ask for it by type."""

from __future__ import annotations

from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.ranks import JobFacts, RankFacts


@dataclass(frozen=True)
class AllRanks:
    """What was measured of all ranks of a job; JobFacts adds what to expect of another number of them."""

    job: JobFacts

    @property
    def shown(self) -> RankFacts | None:
        """The rank that the report is about."""
        return next((rank for rank in self.job.ranks if rank.rank == self.job.shown), None)
