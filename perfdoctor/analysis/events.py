"""Rare events become ThreadFacts, EvalFacts, SaveFacts and OverheadFacts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from perfdoctor.analysis.hosts import growth
from perfdoctor.analysis.records import Json, Window, location, number, positive, whole
from perfdoctor.analysis.source import Sources
from perfdoctor.analysis.steps import Steps
from perfdoctor.model import (
    EvalFacts,
    Location,
    OverheadFacts,
    Phase,
    SaveFacts,
    StackFacts,
    StepFacts,
    ThreadFacts,
)
from perfdoctor.recorded import RankRecords


def boot_of(records: RankRecords, boots: Sequence[Json]) -> Json | None:
    """The boot record of the process that trained."""
    pids = {
        entry.get("pid")
        for entry in records.events
        if entry.get("event") in {"optimizer", "root", "cost", "end"}
    }
    return next((boot for boot in boots if boot.get("pid") in pids), boots[0] if boots else None)


def thread_facts(records: RankRecords, boot: Json | None, step: StepFacts) -> ThreadFacts | str:
    """torch's intra-op threads as they were when training ended, and who set them."""
    changed = records.of("threads")
    modules = _modules(records)
    per_module_s = _compute_s(step) / modules if modules else None
    if changed and whole(changed[-1].get("intra_op")):
        return ThreadFacts(
            int(changed[-1]["intra_op"]),
            "torch.set_num_threads",
            location(changed[-1].get("at")),
            per_module_s,
        )
    threads = whole((boot or {}).get("threads"))
    if not threads:
        return "the number of torch's threads is not known"
    named = (boot or {}).get("threads_env") or {}
    return ThreadFacts(
        threads, next((f"{name}={value}" for name, value in named.items()), None), None, per_module_s
    )


def _modules(records: RankRecords) -> int:
    """How many modules the largest root module holds."""
    return max((whole(entry.get("modules")) or 0 for entry in records.of("root")), default=0)


def _compute_s(step: StepFacts) -> float:
    return step.seconds.get(Phase.FORWARD, 0.0) + step.seconds.get(Phase.BACKWARD, 0.0)


def eval_facts(records: RankRecords, step: StepFacts) -> EvalFacts | None:
    """Passes in eval mode, or None. Their time is the validation phase's; the events tell how it splits."""
    totals = records.of("eval")
    if not totals or not whole(totals[-1].get("calls")):
        return None
    last = totals[-1]  # running totals, about once a second: too coarse for the borders of the steps
    seconds_per_step = step.seconds.get(Phase.VALIDATION, 0.0)
    recorded = (
        number(last.get("grad_seconds")) / number(last.get("seconds"))
        if positive(last.get("seconds"))
        else 0.0
    )
    return EvalFacts(
        calls=round(number(last.get("calls"))),
        grad_calls=round(number(last.get("grad_calls"))),
        seconds_per_step=seconds_per_step,
        grad_seconds_per_step=seconds_per_step * min(1.0, recorded),
        at=location(last.get("at")),
    )


def save_facts(
    records: RankRecords, window: Window, stacks: StackFacts | None, sources: Sources
) -> SaveFacts | None:
    """Checkpoints between the first step and the last, or None where nothing was saved."""
    saves = [entry for entry in records.of("save") if window.holds(entry.get("begin_ns", entry.get("t_ns")))]
    if not saves:
        return None
    sizes: Counter[int] = Counter()  # files written within one step are one checkpoint
    lines: Counter[Location | None] = Counter()
    for entry in saves:
        begin_ns = number(entry.get("begin_ns", entry.get("t_ns")))
        sizes[int(np.searchsorted(window.step_ends_ns, begin_ns))] += whole(entry.get("bytes")) or 0
        lines[location(entry.get("at"))] += round(number(entry.get("seconds")) * 1e9)
    beside = stacks.phases.get(Phase.OTHER, ()) if stacks is not None else ()
    gaps = np.diff(sorted(sizes))
    return SaveFacts(
        count=len(sizes),
        seconds_per_step=min(lines.total() / 1e9, window.seconds) / window.steps,
        bytes=max(sizes.values()) or None,
        at=sources.shown(lines.most_common(1)[0][0]),
        steps_between=float(np.median(gaps)) if len(gaps) else window.steps,
        beside_share=min(1.0, sum(line.share for line in beside if line.kind == "checkpoint")),
    )


def overhead_facts(
    records: RankRecords, steps: Steps, step: StepFacts, samples: Sequence[Json]
) -> OverheadFacts | str:
    """What watching cost a step: how often each of the probe's moves was made, times what it costs here.

    What profiler windows took, by how much they slowed their steps, and what recording collectives took is
    spread over all steps.
    """
    costs = records.of("cost")
    if not costs or step.mean_s <= 0:
        return "the probe's own cost was not measured"
    cost, count = costs[-1], float(steps.weight.sum())
    calls = float(steps.counts["calls"].sum()) / count
    collectives_s = number(next(iter(records.of("collectives")[-1:]), {}).get("own_s"))  # a running total
    total_ns = (
        number(cost.get("switch_ns")) * float(steps.counts["switches"].sum()) / count
        + number(cost.get("row_ns")) * steps.rows / count
        + number(cost.get("call_ns")) * calls * max(1, _modules(records))
        + (windows_s(records, step.mean_s) + collectives_s) * 1e9 / count
    )
    return OverheadFacts(total_ns / 1e9, min(1.0, total_ns / 1e9 / step.mean_s), _sampler_cores(samples))


def windows_s(records: RankRecords, mean_s: float) -> float:
    """Seconds that profiler windows cost: start, stop, export, and what their steps took beyond the mean."""
    total = 0.0
    for window in records.of("window"):
        steps = whole(window.get("steps")) or 0
        inside_s = max(0.0, number(window.get("end_ns")) - number(window.get("begin_ns"))) / 1e9
        total += sum(number(window.get(name)) for name in ("start_s", "stop_s", "export_s"))
        if window.get("outcome") == "ok" and steps:
            total += max(0.0, inside_s / steps - mean_s) * (steps + 1)  # one of warm-up is slowed as well
    return total


def _sampler_cores(samples: Sequence[Json]) -> float | None:
    spent = [
        {"t_ns": entry.get("t_ns"), "procs": [{"pid": 0, "role": "own", "cpu_s": entry["perfdoctor_cpu_s"]}]}
        for entry in samples
        if positive(entry.get("perfdoctor_cpu_s"))
    ]
    return growth(spent, "cpu_s", {"own"})
