"""Measures what watching cost: OverheadFacts."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median

from perfdoctor.facts.decode import Json, positive
from perfdoctor.facts.host.resources import HostSamples, growth
from perfdoctor.facts.registry import fact
from perfdoctor.facts.steps.boundaries import Steps
from perfdoctor.model.measured import CpuFacts, OverheadFacts, StackFacts, StepFacts
from perfdoctor.model.missing import Missing
from perfdoctor.runs.types import RankRecords
from perfdoctor.wire.events.process import CostEvent
from perfdoctor.wire.events.ranks import CollectivesEvent
from perfdoctor.wire.events.script import RootModuleEvent
from perfdoctor.wire.events.training import ModuleCallsEvent, WindowEvent

SURELY = 1.645  # standard deviations to either side: 90 % of chance
# Stack samples: of fewer, the range reaches beyond a hundredth of the step where none met the probe at work.
TELLING = 270


@fact
def overhead_facts(
    rank: RankRecords,
    steps: Steps,
    step: StepFacts,
    samples: HostSamples,
    lines: StackFacts | Missing | None,
    cpu: CpuFacts | Missing | None,
) -> OverheadFacts | Missing:
    """What watching cost a step.

    At least: how often each of the probe's moves was made, times what it costs here after other work. In a
    training step each costs more; how much more is told by the stack samples that met the probe at work. Not
    where other programs hold the cores: a thread may lose its core as it asks for a clock of its own, and
    samples then meet the probe waiting, for time that would be lost a little later without it.
    What profiler windows took, by how much they slowed their steps, and what recording collectives took is
    spread over all steps.
    """
    costs = rank.of(CostEvent)
    if not costs or step.mean_s <= 0:
        return Missing("the probe's own cost was not measured")
    cost, count = costs[-1], float(steps.weight.sum())
    collectives_s = sum(max(0.0, total.own_s) for total in rank.of(CollectivesEvent)[-1:])  # a running total
    pieces_s = (
        cost.switch_ns * float(steps.counts["switches"].sum()) / count
        + cost.row_ns * steps.rows / count
        + cost.call_ns * _module_calls(rank, float(steps.counts["calls"].sum()) / count)
    ) / 1e9 + collectives_s / count
    alone = not (isinstance(cpu, CpuFacts) and cpu.crowded)
    sampled_s = tuple(share * step.mean_s for share in _own_shares(lines)) if alone else ()
    low_s, likely_s = sampled_s[:2] if sampled_s and sampled_s[0] > pieces_s else (pieces_s, pieces_s)
    windows = windows_s(rank, step.mean_s) / count
    return OverheadFacts(
        seconds_per_step=likely_s + windows,
        share=max(0.0, min(1.0, (likely_s + windows) / step.mean_s)),
        sampler_cores=_sampler_cores(samples),
        low_seconds_per_step=low_s + windows,
        high_seconds_per_step=max(likely_s, sampled_s[2]) + windows if sampled_s else None,
    )


def _module_calls(rank: RankRecords, outermost: float) -> float:
    """Calls of modules a step: as looks at steps counted them, or else all modules in each outermost call."""
    looked = [look.calls for look in rank.of(ModuleCallsEvent)]
    held = max((root.modules for root in rank.of(RootModuleEvent)), default=1)
    return median(looked) if looked else outermost * max(1, held)


def _own_shares(lines: StackFacts | Missing | None) -> tuple[float, ...]:
    """(low, likely, high) share of time that the probe was at work, after Wilson; nothing of few samples."""
    if not isinstance(lines, StackFacts) or lines.own_samples is None or lines.samples < TELLING:
        return ()
    count, share, square = lines.samples, lines.own_samples / lines.samples, SURELY**2
    middle = (share + square / (2 * count)) / (1 + square / count)
    half = SURELY * math.sqrt(share * (1 - share) / count + square / (4 * count**2)) / (1 + square / count)
    return max(0.0, middle - half), share, min(1.0, middle + half)


def windows_s(rank: RankRecords, mean_s: float) -> float:
    """Seconds that profiler windows cost: start, stop, export, and what their steps took beyond the mean."""
    return sum(window_s(window, mean_s) for window in rank.of(WindowEvent))


def window_s(window: WindowEvent, mean_s: float) -> float:
    """Seconds that one window cost."""
    total = window.count_s + window.start_s + window.stop_s + window.export_s
    if window.outcome == "ok" and window.steps:
        inside_s = max(0.0, window.end_ns - window.begin_ns) / 1e9
        slowed = window.steps + (1 if window.warm_up is None else window.warm_up)
        total += max(0.0, inside_s / window.steps - mean_s) * slowed
    return total


def _sampler_cores(samples: Sequence[Json]) -> float | None:
    spent = [
        {"t_ns": entry.get("t_ns"), "procs": [{"pid": 0, "role": "own", "cpu_s": entry["perfdoctor_cpu_s"]}]}
        for entry in samples
        if positive(entry.get("perfdoctor_cpu_s"))
    ]
    return growth(spent, "cpu_s", {"own"})
