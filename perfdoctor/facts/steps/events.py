"""Measures threads, validation passes, checkpoints and perfdoctor's own cost, from rare events."""

from __future__ import annotations

from collections import Counter
from statistics import median

import numpy as np

from perfdoctor.facts.decode import as_count, location, number, positive
from perfdoctor.facts.registry import fact
from perfdoctor.facts.steps.span import MeasuredSpan
from perfdoctor.facts.steps.summary import boot_of
from perfdoctor.facts.user_source.intervals import Intervals
from perfdoctor.facts.user_source.parse import Sources
from perfdoctor.facts.user_source.update_dependence import only_reported
from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.interval import OF_STEPS, Interval
from perfdoctor.model.measured import Location, Phase, RunFacts, StackFacts, StepFacts, ThreadFacts
from perfdoctor.model.missing import Missing
from perfdoctor.runs.types import RankRecords, RunRecords
from perfdoctor.wire.events.process import EndEvent
from perfdoctor.wire.events.script import RootModuleEvent, SaveEvent, ThreadsEvent
from perfdoctor.wire.events.training import EvalEvent, ModuleCallsEvent


@dataclass(frozen=True)
class EvalFacts:
    """Passes of modules in eval mode: counts of the whole run, seconds within the steps."""

    calls: int
    grad_calls: int  # those that recorded gradients
    seconds_per_step: float  # all eval-mode passes
    grad_seconds_per_step: float  # those that recorded gradients
    at: Location | None  # the calling line of the last pass that recorded gradients


@dataclass(frozen=True)
class SaveFacts:
    """Checkpoints written between the first step and the last."""

    count: int
    seconds_per_step: float
    bytes: int | None
    at: Location | None
    steps_between: float | None
    only_reported: bool = False  # the source shows that no update depends on the line
    beside_share: float = 0.0  # of the step: copying, collecting and writing around them, by stack samples
    beside: tuple[Location, ...] = ()  # the lines of that, costliest first
    interval: Interval = OF_STEPS  # at which the line at `at` runs
    goes_on: bool = False  # the script was to save on when the watch was over


@fact
def thread_facts(records: RunRecords, rank: RankRecords, step: StepFacts) -> ThreadFacts | Missing:
    """torch's intra-op threads as they were when training ended, and who set them."""
    boot = boot_of(rank, records.boots)
    changed = rank.of(ThreadsEvent)
    modules = _modules(rank)
    per_module_s = _compute_s(step) / modules if modules else None
    if changed and changed[-1].intra_op:
        return ThreadFacts(
            changed[-1].intra_op,
            "torch.set_num_threads",
            location(changed[-1].at),
            per_module_s,
        )
    threads = as_count((boot or {}).get("threads"))
    if not threads:
        return Missing("the number of torch's threads is not known")
    named = (boot or {}).get("threads_env") or {}
    return ThreadFacts(
        threads, next((f"{name}={value}" for name, value in named.items()), None), None, per_module_s
    )


def _modules(rank: RankRecords) -> float:
    """How many modules a step calls, as it was seen to, but no fewer than the largest root module holds."""
    held = max((entry.modules for entry in rank.of(RootModuleEvent)), default=0)
    called = [entry.calls for entry in rank.of(ModuleCallsEvent)]
    return max(held, median(called) if called else 0.0)


def _compute_s(step: StepFacts) -> float:
    """Forward and backward, as far as the process had a core: on a crowded machine, no more is computed."""
    seconds = step.seconds.get(Phase.FORWARD, 0.0) + step.seconds.get(Phase.BACKWARD, 0.0)
    working_s = step.mean_s - step.seconds.get(Phase.DATA_WAIT, 0.0)
    if step.process_cpu_s is None or working_s <= 0:
        return seconds
    return seconds * min(1.0, step.process_cpu_s / working_s)


@fact
def eval_facts(rank: RankRecords, step: StepFacts) -> EvalFacts | None:
    """Passes in eval mode, or None. Their time is the validation phase's; the events tell how it splits."""
    totals = rank.of(EvalEvent)
    if not totals or not totals[-1].calls:
        return None
    last = totals[-1]  # running totals, about once a second: too coarse for the borders of the steps
    seconds_per_step = step.seconds.get(Phase.VALIDATION, 0.0)
    recorded = last.grad_seconds / last.seconds if positive(last.seconds) else 0.0
    return EvalFacts(
        calls=round(last.calls),
        grad_calls=round(last.grad_calls),
        seconds_per_step=seconds_per_step,
        grad_seconds_per_step=seconds_per_step * min(1.0, recorded),
        at=location(last.at),
    )


@fact
def save_facts(
    rank: RankRecords, run: RunFacts, span: MeasuredSpan, stacks: StackFacts | Missing, sources: Sources
) -> SaveFacts | None:
    """Checkpoints between the first step and the last, or None where nothing was saved."""
    saves = [entry for entry in rank.of(SaveEvent) if span.holds(_begun_ns(entry))]
    if not saves:
        return None
    sizes: Counter[int] = Counter()  # files written within one step are one checkpoint
    lines: Counter[Location | None] = Counter()
    for entry in saves:
        begin_ns = _begun_ns(entry)
        sizes[int(np.searchsorted(span.step_ends_ns, begin_ns))] += entry.bytes or 0
        lines[location(entry.at)] += round(entry.seconds * 1e9)
    other = stacks.phases.get(Phase.OTHER, ()) if isinstance(stacks, StackFacts) else ()
    beside = [line for line in other if line.kind == "checkpoint"]
    gaps = np.diff(sorted(sizes))
    at = sources.shown(lines.most_common(1)[0][0])
    between = float(np.median(gaps)) if len(gaps) else span.steps
    return SaveFacts(
        count=len(sizes),
        seconds_per_step=min(lines.total() / 1e9, span.seconds) / span.steps,
        bytes=max(sizes.values()) or None,
        at=at,
        steps_between=between,
        only_reported=only_reported(sources, at),
        beside_share=min(1.0, sum(line.share for line in beside)),
        beside=tuple(dict.fromkeys(line.at for line in beside)),
        interval=Intervals(sources).of(at, between) if at is not None else OF_STEPS,
        goes_on=run.was_to_go_on or _outlives(rank, span, between),
    )


def _outlives(rank: RankRecords, span: MeasuredSpan, between: float) -> bool:
    """Whether the watch was over before the script, which ran on for long enough to save again."""
    ran_on_s = (number(rank.run.get("end_ns")) - span.end_ns) / 1e9
    return not rank.of(EndEvent) and ran_on_s > between * span.seconds / span.steps


def _begun_ns(save: SaveEvent) -> int:
    """When it began; of an older probe's, when it was over."""
    return save.t_ns if save.begin_ns is None else save.begin_ns
