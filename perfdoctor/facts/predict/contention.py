"""Estimates what training and busy workers on the same cores cost each other, beyond an even share.

Measured factors (perfdoctor.watch.machine.contention) are for workers that never pause beside training that
never waits. Held against what is lost where cores are shared out evenly, they become two numbers that hold
for any degree of contention: 1 = as even sharing says, 2 = twice the loss.
"""

from __future__ import annotations

from collections.abc import Mapping

from perfdoctor.facts.decode import Json, number, positive
from perfdoctor.model.dataclass import dataclass

LARGEST = 10.0  # times the loss of even sharing; more was something else on the machine
SEEN_DOUBT = 0.2  # of a loss that the run itself showed, either way: another number of workers may lose more


@dataclass(frozen=True)
class CpuContention:
    """Losses relative to even sharing, in the best, the likely and the worst case."""

    compute: tuple[float, float, float]
    worker: tuple[float, float, float]
    threads: float = 1.0  # of the team that trains: they spin for one of them that has no core

    def seen(self, compute: float, worker: float) -> CpuContention:
        """The same, where a run itself shows a loss; 0 stands for a run that could not show one."""
        return CpuContention(
            _range(min(LARGEST, compute), SEEN_DOUBT) if compute > 0 else self.compute,
            _range(min(LARGEST, worker), SEEN_DOUBT) if worker > 0 else self.worker,
            self.threads,
        )


# A thread without a core keeps its team waiting, so contention weighs more than its share; not measured.
USUAL = CpuContention(compute=(1.0, 1.2, 1.6), worker=(0.8, 1.0, 1.2))


def cpu_contention(factors: Json | None, worth: float = 1.0) -> CpuContention:
    """The losses that a machine's measured factors stand for; usual ones where they say nothing.

    `worth`: how much of a whole core one of its usable cores is, in the mean.
    """
    threads, cores = positive((factors or {}).get("threads")), positive((factors or {}).get("cores"))
    if factors is None or threads is None or cores is None:
        return USUAL
    cores *= worth
    compute = _loss(factors.get("compute"), threads, cores)
    worker = _loss(factors.get("worker"), threads, cores)
    return CpuContention(
        USUAL.compute if compute is None else _between(compute),
        USUAL.worker if worker is None else _between(worker),
        max(1.0, threads),
    )


def _loss(factors: object, threads: float, cores: float) -> float | None:
    """The least loss beside so many workers that cores are short, or None where they never are.

    With more workers than that, teams of threads stall for tens of steps at times, which no script is owed.
    """
    if not isinstance(factors, Mapping):
        return None
    losses = []
    for count, factor in factors.items():
        demand = (threads + number(float(count) if str(count).isdecimal() else 0.0)) / cores
        if demand > 1 and positive(factor):
            losses.append(min(LARGEST, max(0.0, (number(factor) - 1) / (demand - 1))))
    return min(losses, default=None)


def _range(loss: float, doubt: float) -> tuple[float, float, float]:
    return loss * (1 - doubt), loss, loss * (1 + doubt)


def _between(loss: float) -> tuple[float, float, float]:
    """From even sharing to the measured loss, which is that of small operations: large ones lose less."""
    best, worst = sorted((1.0, loss))
    return best, (best * worst) ** 0.5, worst
