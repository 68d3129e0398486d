"""Tells whether steps take longer and longer, in which phase, and whether they lack cores: StepGrowth."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from perfdoctor.facts.decode import Json, number
from perfdoctor.facts.host.resources import ENOUGH, OwnSamples
from perfdoctor.facts.registry import fact
from perfdoctor.facts.steps.boundaries import Floats, Ints, Steps
from perfdoctor.facts.steps.trend import rank_correlation, slope
from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.measured import PAUSES, Phase

SETTLING = 0.2  # of the steps: they warm up, and memory is still being allocated
BLOCKS = 10  # of the settled run, whose median steps are compared
FEW = 10  # steps in a block below which its median says nothing
STEADY = 0.9  # rank correlation of time and place: by chance once in some thousand runs
GOES_ON = 0.1  # of the whole run's slope in either half of it: what jumps once or levels off does not grow


@dataclass(frozen=True)
class StepGrowth:
    """Steps that take longer and longer all through the run. Shares of the growth need not add up to 1."""

    first_s: float  # the usual step in the first tenth of the settled run
    last_s: float  # in the last tenth
    slower: float  # share of the run's mean step, pauses left out, that was not there at its begin
    first: Mapping[Phase, float]  # seconds of each phase in a step at the beginning
    phases: Mapping[Phase, float]  # share of the growth that lies in each phase
    cpu: float | None  # by how much a step's CPU time grows, for each part that its time grows by
    waiting: float | None  # seconds that its threads had no core, for each second of growth
    begin_s: float  # the usual step at the begin of the run, as far as the line through the settled run tells


@fact
def step_growth(steps: Steps, samples: OwnSamples) -> StepGrowth | None:
    """How the steps grow, or None where they do not, or not all along."""
    lumps = np.sum([steps.phases[phase] for phase in PAUSES], axis=0)
    timed = np.flatnonzero(~steps.disturbed)
    settled = timed[int(SETTLING * len(timed)) :]
    if len(settled) < BLOCKS * FEW:
        return None
    blocks = np.array_split(settled, BLOCKS)
    seconds = (steps.seconds - lumps) / steps.weight
    medians = _medians(seconds, blocks)
    rate = _rate(medians)
    if rate <= 0 or rank_correlation(medians) < STEADY:
        return None
    half = BLOCKS // 2
    if min(_rate(medians[:half]), _rate(medians[half:])) < GOES_ON * rate:
        return None
    begin_s = _begin_s(seconds[timed], rate, float(medians[0]))
    mean_s = float(_medians(seconds, np.array_split(timed, round(BLOCKS / (1 - SETTLING)))).mean())
    by_phase = {
        phase: _medians(values / steps.weight, blocks)
        for phase, values in steps.phases.items()
        if phase not in PAUSES
    }
    waited = _waiting(samples, steps, blocks)
    return StepGrowth(
        first_s=float(medians[0]),
        last_s=float(medians[-1]),
        slower=max(0.0, (mean_s - begin_s) / mean_s),
        first={phase: float(values[0]) for phase, values in by_phase.items()},
        phases={phase: _rate(values) / rate for phase, values in by_phase.items()},
        cpu=_alike(_cpu(steps, blocks), medians),
        waiting=None if waited is None else _rate(waited) / rate,
        begin_s=begin_s,
    )


def _begin_s(seconds: Floats, rate: float, first_s: float) -> float:
    """The step at the begin of the run: by the growth from block to block, and no quicker than any was.

    While a run settles, steps warm up and grow as well: what they took there is no measure of the begin.
    """
    before = int(SETTLING * len(seconds))
    blocks_before = BLOCKS * before / (len(seconds) - before) + 0.5  # from the middle of the first one
    early = np.array_split(seconds[:before], max(1, before // FEW))
    quickest_s = min((float(np.median(block)) for block in early if len(block)), default=first_s)
    return min(first_s, max(first_s - blocks_before * rate, quickest_s))


def _medians(values: Floats, blocks: Sequence[Ints]) -> Floats:
    return np.array([np.median(values[block]) for block in blocks])


def _rate(blocks: Floats) -> float:
    """Growth from one block to the next."""
    return slope(np.arange(len(blocks)), blocks) or 0.0


def _alike(cpu: Floats | None, medians: Floats) -> float | None:
    """1 where CPU time grows by the same factor: steps do more, however long they wait for cores besides."""
    if cpu is None:
        return None
    cpu_rate, rate = (_rate(each) / float(each.mean()) for each in (cpu, medians))
    return cpu_rate / rate


def _cpu(steps: Steps, blocks: Sequence[Ints]) -> Floats | None:
    """CPU seconds per step in each block; the clock is read with one row in several."""
    seconds = steps.counts["process_cpu_ns"] / 1e9
    if not seconds.any():
        return None
    return np.array([seconds[block].sum() / steps.weight[block].sum() for block in blocks])


def _waiting(samples: Sequence[Json], steps: Steps, blocks: Sequence[Ints]) -> Floats | None:
    """Seconds per step, in each block, that the process's threads were ready and had no core."""
    seen = [
        (number(entry.get("t_ns")), number(proc.get("threads_delay_s")))
        for entry in samples
        for proc in entry.get("procs") or ()
        if proc.get("role") == "main" and proc.get("threads_delay_s") is not None
    ]
    if len(seen) < ENOUGH:
        return None
    at_ns, waited_s = np.array(seen).T
    edges_ns = [(steps.begin_ns[block[0]], steps.end_ns[block[-1]]) for block in blocks]
    waited = np.interp(np.array(edges_ns, dtype=np.float64), at_ns, waited_s)
    return np.array(
        [
            (end_s - begin_s) / steps.weight[block[0] : block[-1] + 1].sum()
            for (begin_s, end_s), block in zip(waited, blocks, strict=True)
        ]
    )
