"""Tells whether the threads that compute lack cores that others have, and what fewer of them would bring.

A team of threads begins and ends each operation together. A thread without a core keeps all of them waiting,
and they wait spinning, on cores that it could have had. One thread waits for nobody.

So a team gets on while all of its threads are on a core at once. How often each of them is, the kernel
counts: of the time in which it wants a core, that in which it has one. Where they have theirs by chance, all
do for the product of these shares. `python bench/crowded_threads.py` measures a power of that product.
"""

from __future__ import annotations

import math

from perfdoctor.facts.host.rank_cores import RankCores
from perfdoctor.facts.host.training_thread import TrainingThreadFacts
from perfdoctor.facts.registry import fact
from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.measured import CpuFacts, RunFacts, ThreadFacts
from perfdoctor.model.missing import Missing

ROUNDED = 0.3  # cores: what is busy is sampled, and a little of it keeps no thread from its core
LACKING = 0.1  # seconds without a core, of all threads, per second: from here on the team is held up
# How much of its progress is left to a team of which all threads are on a core for a share of the time: a
# part of a power of that share. Least loss (large operations), likely one, most (many small operations, each
# of which waits anew): docs/variability.md.
POWERS, PARTS = (0.8, 1.0, 1.4), (1.0, 0.85, 0.55)
LEAST_LEFT = 0.001  # a bound on figures, not a forecast
# Share of one thread's compute that its team divides, in the same cases: how large operations are is not
# known where most of their time is waiting.
DIVIDED = (0.9, 0.6, 0.0)


@dataclass(frozen=True)
class ThreadTeam:
    """The threads of one process that compute on the CPU. Rates are seconds per second of the steps."""

    threads: int
    cores: float  # usable, for all teams on them
    rivals: float  # cores that are kept busy by others than the processes that train
    ran: float | None = None  # all its threads together
    lacked: float | None = None  # likewise: ready, but without a core
    first_ran: float | None = None  # of these, the thread that trains
    first_lacked: float | None = None
    teams: int = 1  # on the same cores: ranks

    @property
    def is_held_up(self) -> bool:
        """Whether others have cores that its threads need."""
        if self.lacked is None or self.together is None or self.threads < 2:
            return False
        shared = self.rivals > ROUNDED or self.teams > 1
        return shared and self.lacked >= LACKING and self.fitting < self.threads

    @property
    def wanted_by_rivals(self) -> float:
        """Cores that others would keep busy if there were enough: they lack cores as often as its threads."""
        return self.rivals * (1 + (self.lacked or 0.0) / max(self.ran or 0.0, LEAST_LEFT))

    @property
    def fitting(self) -> int:
        """How many threads of each team have a core of their own beside the others, at least one."""
        return max(1, int((self.cores - self.wanted_by_rivals + ROUNDED) / self.teams))

    @property
    def together(self) -> float | None:
        """The share of the time in which all threads have a core, if by chance; None: it is not known."""
        if self.ran is None or self.lacked is None or self.first_ran is None or self.first_lacked is None:
            return None
        others = _kept(self.ran - self.first_ran, self.lacked - self.first_lacked)
        # Of teams of two this was measured. In larger ones it would say that next to nothing gets on.
        return float(_kept(self.first_ran, self.first_lacked) * others)

    def speedups(self, count: int) -> tuple[float, float, float]:
        """How many times as fast computing is with `count` threads: low, likely, high."""
        low, likely, high = sorted(
            _time(self.threads, divided) / _time(count, divided) * self._progress(count, power, part)
            / self._progress(self.threads, power, part)
            for power, part, divided in zip(POWERS, PARTS, DIVIDED, strict=True)
        )  # fmt: skip
        return low, likely, high

    def _progress(self, count: int, power: float, part: float) -> float:
        """The share of the time in which so many threads get on."""
        if count == 1:
            return self._of_one()
        lacking = min(1.0, self._lacking(count) / self._lacking(self.threads))
        left = part * math.pow(self.together or 0.0, power)
        return max(LEAST_LEFT, 1 - (1 - left) * lacking)

    def _of_one(self) -> float:
        """The share of a core that one thread has: all that its team had, where cores are shared by programs.

        Where they are shared by threads, as within one session, it has no less than its part.
        """
        fair = min(1.0, self.cores / (self.wanted_by_rivals + self.teams))
        return max(LEAST_LEFT, min(1.0, max(fair, self.ran or 0.0)))

    def _lacking(self, count: int) -> float:
        """Cores that are missing with so many threads in each team."""
        return max(0.0, self.wanted_by_rivals + self.teams * count - self.cores)


def _kept(ran: float, lacked: float) -> float:
    """Of the time in which a thread wants a core, the share in which it has one."""
    ran, lacked = max(0.0, ran), max(0.0, lacked)
    return ran / (ran + lacked) if ran + lacked > 0 else 1.0


def _time(threads: int, divided: float) -> float:
    """How long computing takes with all cores, in times of one thread (Amdahl's law)."""
    return 1 - divided + divided / threads


@fact
def thread_team(
    run: RunFacts,
    cpu: CpuFacts,
    threads: ThreadFacts,
    thread: TrainingThreadFacts | Missing | None,
    bound: RankCores | Missing | None = None,
) -> ThreadTeam:
    """The team of the rank that is shown; of a process alone its helpers' processes are others, too."""
    of_kernel = thread if isinstance(thread, TrainingThreadFacts) else None
    cores, teams, others = cpu.usable_cores, run.ranks, cpu.other_cores or 0.0
    if isinstance(bound, RankCores):
        cores, teams, others = bound.cores, bound.ranks, others * bound.cores / cpu.usable_cores
    if run.ranks > 1:
        rest = (cpu.worker_cores or 0.0) * teams
    else:
        rest = max(0.0, (cpu.busy_cores or 0.0) - (cpu.main_cores or 0.0))
    return ThreadTeam(
        threads=threads.intra_op,
        cores=cores,
        rivals=others + rest,
        ran=cpu.main_cores,
        lacked=cpu.main_delay,
        first_ran=of_kernel.on_core if of_kernel is not None else None,
        first_lacked=of_kernel.without_core if of_kernel is not None else None,
        teams=teams,
    )
