"""Measures the mean step: its phases, its spread, and what comes before and after all steps."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from perfdoctor.facts.decode import Json, positive
from perfdoctor.facts.registry import fact
from perfdoctor.facts.steps import tenths
from perfdoctor.facts.steps.boundaries import Bools, Floats, Steps
from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.measured import PAUSES, Marker, Phase, StepFacts
from perfdoctor.runs.types import RankRecords, RunRecords

FEW = 5  # steps, of which the first is told from the others


@dataclass(frozen=True)
class TimedStep:
    """The step as the timers have it; StepFacts adds what it loses to its own loader workers."""

    step: StepFacts


@fact
def timed_step(records: RunRecords, rank: RankRecords, steps: Steps) -> TimedStep:
    """The step of the rank that is shown."""
    boot = boot_of(rank, records.boots) or {}
    begin_ns = positive(boot.get("begin_ns")) or positive(records.run.get("begin_ns"))
    return TimedStep(step_facts(steps, round(begin_ns) if begin_ns else None, _end_ns(records, rank)))


def boot_of(rank: RankRecords, boots: Sequence[Json]) -> Json | None:
    """The boot record of the process that trained."""
    pids = {
        entry.get("pid")
        for entry in rank.events
        if entry.get("event") in {"optimizer", "root", "cost", "end"}
    }
    return next((boot for boot in boots if boot.get("pid") in pids), boots[0] if boots else None)


def _end_ns(records: RunRecords, rank: RankRecords) -> int | None:
    """When the process ended: its last row, where it is the END row, else the run's end."""
    if rank.steps is not None and len(rank.steps) and rank.steps["marker"][-1] == Marker.END:
        return int(rank.steps["end_ns"][-1])
    end_ns = positive(records.run.get("end_ns"))
    return round(end_ns) if end_ns else None


def step_facts(steps: Steps, process_begin_ns: int | None, process_end_ns: int | None) -> StepFacts:
    """The facts of the step. Steps disturbed by a profiler window count, but are not timed.

    The wall time is that of the run without windows: a disturbed step stands in it for a mean one, with the
    validation and the checkpoints that it has itself, and what goes with that validation.
    """
    timed = tenths.timed(steps)
    weight, seconds = steps.weight[timed], steps.seconds[timed]
    count, steps_count = float(weight.sum()), float(steps.weight.sum())
    means = {phase: float(values[timed].sum()) / count for phase, values in steps.phases.items()}
    # Of pauses, one that is left out may be all of them.
    means |= {phase: _of_all(steps.phases[phase], timed) / steps_count for phase in PAUSES}
    means[Phase.OTHER] = _other_s(steps, timed) / steps_count
    mean_s = sum(means.values())
    median_s, p95_s = quantiles(seconds / weight, weight, (0.5, 0.95))
    totals = {name: float(values[timed].sum()) for name, values in steps.counts.items()}
    samples = float(steps.samples[timed].sum())
    known = steps.loss[np.isfinite(steps.loss)]
    return StepFacts(
        count=round(steps_count),
        marker=steps.marker,
        mean_s=mean_s,
        median_s=median_s,
        p95_s=p95_s,
        seconds=means,
        wall_s=mean_s * steps_count,
        startup_s=max(0.0, (int(steps.begin_ns[0]) - process_begin_ns) / 1e9) if process_begin_ns else 0.0,
        tail_s=max(0.0, (process_end_ns - int(steps.end_ns[-1])) / 1e9) if process_end_ns else None,
        samples_per_s=samples / count / mean_s if samples and mean_s else None,
        updates_per_step=steps.per_step,
        backwards_per_step=totals["backwards"] / count,
        skipped_updates=steps.skipped_updates,
        process_cpu_s=totals["process_cpu_ns"] / 1e9 / count if totals["process_cpu_ns"] else None,
        first_loss=float(known[0]) if len(known) else None,
        last_loss=float(known[-1]) if len(known) else None,
        drift=tenths.drift(steps),
        first_longer_s=_first_longer_s(steps, timed),
    )


def _first_longer_s(steps: Steps, timed: Bools) -> float:
    """Seconds by which the first step takes longer than the median one, waits and pauses aside."""
    single = timed & (steps.weight == 1)
    if not single[0] or single.sum() < FEW:
        return 0.0
    trained_s = steps.seconds - sum(steps.phases[phase] for phase in (Phase.DATA_WAIT, *PAUSES))
    return max(0.0, float(trained_s[0] - np.median(trained_s[single])))


def _other_s(steps: Steps, timed: Bools) -> float:
    """Seconds of `other` in all steps: beside a validation most of it is of that, and a pause as well.

    A trainer joins the outputs of its passes there, for longer than these took. A disturbed step without a
    validation stands for one without.
    """
    other, validates = steps.phases[Phase.OTHER], steps.phases[Phase.VALIDATION] > 0
    like = timed & ~validates if np.any(timed & ~validates) else timed
    without_s = float(other[like].sum() / steps.weight[like].sum() * steps.weight[~validates].sum())
    return without_s + _of_all(np.where(validates, other, 0.0), timed)


def _of_all(seconds: Floats, timed: Bools) -> float:
    """Seconds of a phase in all steps; in disturbed ones no more than in any other, if another has it."""
    most_s = float(seconds[timed].max(initial=0.0)) or np.inf
    return float(seconds[timed].sum() + np.minimum(seconds[~timed], most_s).sum())


def quantiles(values: Floats, weight: Floats, at: tuple[float, ...]) -> tuple[float, ...]:
    """Weighted quantiles: the smallest value that at least that share of the weight does not exceed."""
    order = np.argsort(values, kind="stable")
    reached = np.cumsum(weight[order])
    places = np.searchsorted(reached, [share * reached[-1] for share in at])
    return tuple(float(values[order[min(int(place), len(values) - 1)]]) for place in places)
