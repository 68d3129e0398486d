"""Predicts how much faster torch computes with another number of threads."""

from __future__ import annotations

from dataclasses import replace

from perfdoctor.facts.predict.step_model import WORST, StepModel
from perfdoctor.model.measured import ThreadFacts

LARGE_S = 0.0005  # per module, forward and backward: smaller operations gain little from threads, or nothing
# Share of one thread's compute that threads speed up: small layers, usual ones, large matrices. Of small
# operations, which torch shares out in part or not at all, from none on; of very large ones, next to whose
# milliseconds the microseconds of sharing out vanish, all but what memory holds up.
PARALLEL, PARALLEL_OF_SMALL, PARALLEL_OF_LARGE = (0.3, 0.6, 0.9), (0.0, 0.3, 0.6), (0.5, 0.8, 0.95)
VERY_LARGE_S = 0.005  # per module: some 10^8 multiplications, the more the better they share out
TOO_MANY = 1.5  # threads per usable core from which they wait for each other's turns
OVERSUBSCRIBED = (1.02, 1.2, 2.0)  # speedup of compute when threads no longer outnumber cores
ALONE = (1.0, 1.0, 1.0)  # what one thread loses to busy workers, by even sharing: it holds up no team


def of_threads(
    now: float, then: float, cores: float, per_module_s: float | None
) -> tuple[float, float, float]:
    """The speedup of computing with `then` threads instead of `now`: low, likely, high.

    More threads than cores do not compute faster, and many more slow each other down. `per_module_s`: what a
    module computes, forward and backward: it tells how well it shares out.
    """
    cores = max(1.0, cores)
    low, likely, high = sorted(
        _time(now, cores, part) * _slowdown(now, cores, case)
        / (_time(then, cores, part) * _slowdown(then, cores, case))
        for case, part in enumerate(_parallel(per_module_s))
    )  # fmt: skip
    return low, likely, high


def _time(threads: float, cores: float, part: float) -> float:
    """How long computing takes, in times of one thread, where threads share `part` of it (Amdahl's law)."""
    return 1.0 - part + part / min(threads, cores)


def with_threads(
    model: StepModel,
    count: int,
    threads: ThreadFacts,
    computing: float,
    case: int,
    speedups: tuple[float, float, float] | None = None,
) -> StepModel:
    """The demands if torch computes with `count` threads; `computing` is its share of the training thread.

    `speedups`: of computing, from low to high, where others have cores that its threads need.
    """
    speedups = speedups or of_threads(threads.intra_op, count, model.cores, threads.per_module_s)
    speedup = speedups[WORST - case]
    left = 1.0 - computing + computing / speedup
    compute_s = model.compute_s * left
    before, after = (max(1.0, min(number, model.cores)) for number in (threads.intra_op, count))
    cpu_s, contention = model.compute_cpu_s, model.contention
    if before > 1:  # the team's share of the CPU time, which it also spends waiting for work, goes with it
        own_s = min(cpu_s, model.compute_s)
        cpu_s = (own_s + (cpu_s - own_s) * (after - 1) / (before - 1)) / model.compute_s * compute_s
        contention = replace(contention, compute=ALONE) if after == 1 else contention
    return replace(
        model,
        compute_s=compute_s,
        compute_cpu_s=cpu_s,
        contention=contention,
        pauses_s=model.pauses_s * left,
    )


def _parallel(per_module_s: float | None) -> tuple[float, float, float]:
    """The share of computing that threads speed up, by the size of a module's operations."""
    if per_module_s is None or LARGE_S <= per_module_s < VERY_LARGE_S:
        return PARALLEL
    return PARALLEL_OF_SMALL if per_module_s < LARGE_S else PARALLEL_OF_LARGE


def _slowdown(threads: float, cores: float, case: int) -> float:
    """How much longer computing takes because so many threads share the cores."""
    return OVERSUBSCRIBED[case] if threads >= TOO_MANY * cores else 1.0
