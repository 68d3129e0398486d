"""Makes a report of measured traces: what caused each second of the steps, a verdict, findings.

The verdict is that of one rank: the one the others wait for, if there are several. A trace inflates the
host's time and leaves the device's alone, so what it says against the host is never more than likely.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

from perfdoctor.diagnosis import matrix_sizes, trace_steadiness
from perfdoctor.diagnosis.confidence import UNSTEADY
from perfdoctor.diagnosis.findings import judge
from perfdoctor.diagnosis.freed_memory import freed_memory
from perfdoctor.diagnosis.verdict import (
    NOTHING_WORTHWHILE,
    WORTHWHILE,
    TimeAttribution,
    decide,
    nothing_timed,
    speedup_bounds,
)
from perfdoctor.facts import registry
from perfdoctor.facts.device.charged import attributed_shares, without_waiting
from perfdoctor.facts.device.created_tensors import CreatedTensors, of_copies
from perfdoctor.facts.device.device import (
    PROFILED,
    AttentionFacts,
    CopyFacts,
    DeviceFacts,
    KernelFacts,
    MatrixFacts,
    WaitFacts,
    attention_facts,
    copy_facts,
    device_facts,
    kernel_facts,
    wait_facts,
)
from perfdoctor.facts.device.judged_steps import judged_steps, left_out
from perfdoctor.facts.device.rooflines import narrowed_doubles
from perfdoctor.facts.gather import Facts
from perfdoctor.facts.ranks.gradient_sync import of_device
from perfdoctor.facts.ranks.straggler_facts import of_traces
from perfdoctor.facts.script.backends import Tf32Settings
from perfdoctor.facts.script.double_precision import DoublePrecision, of_kernels
from perfdoctor.model.concluded import Bottleneck, Confidence, Diagnosis, Finding, NotJudged, Verdict
from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.measured import RunFacts, WindowFacts
from perfdoctor.model.missing import Missing
from perfdoctor.model.note import Note, Remark
from perfdoctor.model.ranks import GradientSyncFacts, Straggler
from perfdoctor.tips import catalogue
from perfdoctor.trace.lost import lost_work
from perfdoctor.trace.measure.collectives import MatchedCollectives, match_collectives
from perfdoctor.trace.results import DevicePeak, IdleCause, KernelClass, Launches, RankTrace

FEW_EVENTS = 20  # on the device or, without one, operators: fewer are no training step
FEW_STEPS = 3  # below it one odd step decides
ENOUGH_STEPS = 5  # what a window of a run holds; from here on chance no longer decides on steady steps
IN_DOUBT = 0.5  # of the idle time without a cause: the class it is charged to is a guess
TRAINS = re.compile(r"backward|autograd|optimizer|_foreach_(?!copy_)|_fused_adam|_fused_sgd", re.IGNORECASE)

ONLY_A_RUN_TELLS = "not in a trace: perfdoctor run measures it"
ONE_RANK = Missing("needs the traces of several ranks")
NO_RUNTIME = Missing("the trace holds no calls into the device's runtime")
NO_LAUNCHES = Missing("the trace holds no launches, only the device's work")
NO_KERNELS = Missing("the device ran no kernel, only copies")
NO_DEVICE = "the trace holds no work of a device"
NO_TIME = "the device's work takes no time"
UNUSED = "on the CPU: nothing ran on the device that the profiler watched"
ON_DEVICE = (
    DeviceFacts, KernelFacts, MatrixFacts, CopyFacts, CreatedTensors, WaitFacts, Launches, DevicePeak,
    DoublePrecision, Straggler, GradientSyncFacts,
)  # fmt: skip


@dataclass(frozen=True)
class TraceReport:
    """Traces, and what follows from them. The verdict and the findings are those of rank `judged`."""

    ranks: tuple[RankTrace, ...]
    judged: RankTrace
    device: DeviceFacts | None  # of the judged rank
    together: MatchedCollectives | None  # what the ranks do to each other
    straggler: Straggler | None
    diagnosis: Diagnosis
    findings: tuple[Finding, ...]
    not_judged: tuple[NotJudged, ...]
    notes: tuple[Remark, ...] = ()

    @property
    def trains(self) -> bool:
        """Whether any of it belongs to a backward pass or an optimizer; without operators, maybe."""
        uses = (use.kind for trace in self.ranks for use in trace.classes)
        names = [op.name for trace in self.ranks for op in trace.ops]
        return KernelClass.OPTIMIZER in uses or not names or any(map(TRAINS.search, names))


def report(ranks: Sequence[RankTrace]) -> TraceReport:
    """Everything a renderer needs of one trace, or of one for each rank."""
    collectives = match_collectives(ranks)
    judged = judged_rank(ranks, collectives)
    device = _device(judged, ranks, collectives)
    attribution = attribute_time(judged, device)
    matched = len(ranks) if collectives is not None else 1
    judgement = judge(catalogue.tips(), _facts(judged, device, ranks, collectives), attribution)
    return TraceReport(
        ranks=tuple(ranks),
        judged=judged,
        device=device,
        together=collectives,
        straggler=of_traces(ranks, collectives),
        diagnosis=conclude(judged, device, attribution, judgement.findings, matched),
        findings=judgement.findings,
        not_judged=judgement.not_judged,
        notes=(
            *_notes(ranks, judged, collectives),
            *(freed_memory(judged, device) if device is not None else ()),
            *judgement.notes,
        ),
    )


def judged_rank(ranks: Sequence[RankTrace], collectives: MatchedCollectives | None) -> RankTrace:
    """The rank that the others wait for. Where collectives cannot be matched, it communicates least."""
    if collectives is not None and collectives.late is not None:
        parts = zip(collectives.ranks, ranks, strict=True)
        return next(trace for part, trace in parts if part.rank == collectives.late)
    return min(ranks, key=_exposed_share)


def _exposed_share(rank: RankTrace) -> float:
    """How much of its time a rank only communicates; infinite where no device was recorded."""
    times = rank.times
    return times.exposed_comm_us / times.span_us if times is not None and times.span_us > 0 else math.inf


def _device(
    trace: RankTrace, ranks: Sequence[RankTrace], collectives: MatchedCollectives | None
) -> DeviceFacts | None:
    """Where the device's time goes, without its waits for other ranks where their traces are there."""
    device = device_facts(trace)
    if device is None or collectives is None or trace.times is None:
        return device
    part = next(part for part, other in zip(collectives.ranks, ranks, strict=True) if other is trace)
    waiting = part.waiting_us / part.comm_us if part.comm_us > 0 else 0.0
    return without_waiting(device, waiting * device.exposed_comm)


def attribute_time(trace: RankTrace, device: DeviceFacts | None) -> TimeAttribution | None:
    """Attribute the time of the steps to its causes; None where the trace covers no time."""
    classes = attributed_shares(device) if device is not None else _of_host(trace)
    total = sum(classes.values())
    if total <= 0:
        return None
    classes = {kind: share / total for kind, share in classes.items()}
    return TimeAttribution(classes, speedup_bounds(classes))


def _of_host(trace: RankTrace) -> dict[Bottleneck, float]:
    """Without a device: time inside DataLoader, time inside operators, and the other Python."""
    steps = judged_steps(trace.steps)
    whole_us = (trace.end_ns - trace.begin_ns) / 1e3
    window_us = sum(step.times.span_us for step in steps) if steps else whole_us
    data_us = sum(step.dataloader_us for step in steps) if steps else trace.dataloader_us
    classes = dict.fromkeys(Bottleneck, 0.0)
    if whole_us <= 0 or window_us <= 0:
        return classes
    ops_us = sum(step.operators_us or 0.0 for step in steps) if steps else trace.operators_us or 0.0
    classes[Bottleneck.DATA] = min(data_us, window_us)
    classes[Bottleneck.COMPUTE] = min(ops_us, window_us - classes[Bottleneck.DATA])
    classes[Bottleneck.HOST] = window_us - classes[Bottleneck.DATA] - classes[Bottleneck.COMPUTE]
    return classes


def _facts(
    trace: RankTrace,
    device: DeviceFacts | None,
    ranks: Sequence[RankTrace],
    collectives: MatchedCollectives | None,
) -> Facts:
    """What tips can ask for."""
    duration_s = (trace.end_ns - trace.begin_ns) / 1e9
    run = RunFacts(trace.file, (), None, len(ranks), trace.device or "cpu", duration_s)
    groups: dict[Any, object] = dict.fromkeys(
        (made.kind for made in registry.facts()), Missing(ONLY_A_RUN_TELLS)
    )
    groups |= {RunFacts: run, AttentionFacts: None, WindowFacts: None, Tf32Settings: Tf32Settings()}
    little = _too_little(trace)
    if device is None or little is not None:
        groups |= dict.fromkeys(ON_DEVICE, Missing(little or (NO_DEVICE if trace.times is None else NO_TIME)))
        return Facts(groups if little else groups | {AttentionFacts: attention_facts(trace, None)})
    copies, kernels = copy_facts(trace, device), kernel_facts(trace, device)
    peak = trace.peak or Missing(f"the peak rates of {trace.device or 'the device'} are not known")
    return Facts(
        groups
        | {
            DeviceFacts: device,
            GradientSyncFacts: of_device(device),
            KernelFacts: kernels,
            DoublePrecision: of_kernels(kernels, narrowed_doubles(kernels, peak, Tf32Settings())),
            MatrixFacts: matrix_sizes.sizes(trace, device),
            AttentionFacts: attention_facts(trace, device),
            CopyFacts: copies,
            CreatedTensors: of_copies(copies) if copies is not None else CreatedTensors(),
            WaitFacts: wait_facts(trace) if trace.runtime_us else NO_RUNTIME,
            Launches: trace.launches or (NO_LAUNCHES if _runs_kernels(trace) else NO_KERNELS),
            DevicePeak: peak,
            Straggler: of_traces(ranks, collectives) if len(ranks) > 1 else ONE_RANK,
        }
    )


def _runs_kernels(trace: RankTrace) -> bool:
    """Whether any of the device's work is more than copies and memsets."""
    return any(use.kind not in (KernelClass.COPY, KernelClass.MEMSET) for use in trace.kernels)


def conclude(
    trace: RankTrace,
    device: DeviceFacts | None,
    attribution: TimeAttribution | None,
    findings: Sequence[Finding],
    ranks: int = 1,
) -> Diagnosis:
    """The verdict, with what speaks for it."""
    if attribution is None:
        return nothing_timed("the trace covers no time")
    verdict, kind = decide(attribution, findings, watching=1 - 1 / PROFILED[1])
    is_host = verdict is Verdict.HOST or (
        verdict is Verdict.BALANCED and Bottleneck.HOST in attribution.ranked[:2]
    )
    doubt = _too_little(trace) or (_unexplained(trace, device) if is_host else None)
    if doubt is not None:
        verdict, kind = Verdict.INCONCLUSIVE, attribution.ranked[0]
    if verdict is Verdict.HEALTHY and device_unused(trace):
        verdict = Verdict.COMPUTE
    unseen = matrix_sizes.unjudged(trace, device) if verdict is Verdict.HEALTHY else None
    bound = attribution.bounds[kind]
    if verdict is Verdict.COMPUTE:  # most of it is the training itself: only what a finding removes can go
        bound = max((finding.gain.high for finding in findings if finding.bottleneck is kind), default=1.0)
    because = [doubt] if doubt is not None else []
    because.append(f"of {_judged_time(trace, device)}: {attribution}")
    if device_unused(trace):
        because.append(UNUSED)
    if verdict is Verdict.HEALTHY:
        because.append(NOTHING_WORTHWHILE)
        because += [unseen] if unseen is not None else []
    certain = _confidence(trace, device, attribution, verdict, ranks)
    return Diagnosis(
        verdict=verdict,
        share=attribution.classes[kind],
        bound=bound,
        confidence=certain if unseen is None else max(certain, Confidence.MEDIUM, key=list(Confidence).index),
        because=(*because, *_doubts(trace, device, attribution, verdict, ranks)),
        classes=attribution.classes,
        bounds=attribution.bounds,
    )


def device_unused(trace: RankTrace) -> bool:
    """Whether the profiler watched a device, and all was computed on the CPU."""
    return _notes_of(trace, "device-unused")


def _notes_of(trace: RankTrace, slug: str) -> bool:
    return any(isinstance(note, Note) and note.slug == slug for note in trace.notes)


def _too_little(trace: RankTrace) -> str | None:
    """Why nothing can be concluded from what is there, or None. Marked steps are enough, however small."""
    if lost := lost_work(trace):
        return lost
    if trace.times is None and trace.ops and not (trace.operators_us or trace.dataloader_us):
        return "the operators in the trace take no time"
    if len(judged_steps(trace.steps)) >= FEW_STEPS:
        return None
    if trace.times is not None:
        return _few(trace.device_events, "event on the device", "events on the device")
    return _few(sum(op.count for op in trace.ops), "operator", "operators")


def _few(count: int, one: str, many: str) -> str | None:
    if count >= FEW_EVENTS:
        return None
    return f"the trace holds {f'only {count}' if count else 'no'} {many if count > 1 else one}"


def _unexplained(trace: RankTrace, device: DeviceFacts | None) -> str | None:
    """Why the time cannot be charged to the host, or None."""
    if device is None:
        waits = "the host's own work and its waits for other ranks look alike in a trace of the CPU"
        return waits if (trace.world_size or 1) > 1 else None
    unknown = device.idle.get(IdleCause.UNKNOWN, 0.0)
    if unknown <= IN_DOUBT * sum(device.idle.values()):
        return None
    return f"the device idles {unknown:.0%} of the time, and nothing in the trace explains it"


def _judged_time(trace: RankTrace, device: DeviceFacts | None) -> str:
    steps = len(judged_steps(trace.steps))
    if steps:
        return f"{steps:,} steps" if steps > 1 else "the one step in the trace"
    return "the time from the device's first event to its last" if device else "the time the trace covers"


def _doubts(
    trace: RankTrace, device: DeviceFacts | None, attribution: TimeAttribution, verdict: Verdict, ranks: int
) -> tuple[str, ...]:
    """What lowers the confidence, in words."""
    doubts = []
    if verdict is Verdict.DATA:
        doubts.append(
            "a trace does not hold a batch's cost: perfdoctor run measures it, and advises how many workers"
        )
    if verdict is Verdict.HOST and device is None:
        doubts.append("profiling slows Python: without it this share is smaller than the trace shows")
    elif verdict is Verdict.HOST:
        doubts.append("profiling slows the host: without it the device waits less than this trace shows")
    elif _host_is_larger(attribution, verdict):
        doubts.append("profiling slows the host: its share is likely smaller than this trace shows")
    if verdict is Verdict.HEALTHY and attribution.classes[Bottleneck.DATA] >= WORTHWHILE:
        doubts.append("a trace does not show how far data waits can shrink: perfdoctor run does")
    if len(trace.devices) > 1:
        busy = "time counts as busy while any of them is busy"
        doubts.append(f"{len(trace.devices)} devices worked: {busy}")
    if verdict is Verdict.NETWORK and ranks == 1:
        doubts.append("a rank's trace by itself cannot tell transfer from waiting for another rank")
    steps = judged_steps(trace.steps)
    if 0 < len(steps) < FEW_STEPS:
        doubts.append(f"fewer than {FEW_STEPS} steps: a single odd step can change the result")
    elif steps:
        doubts += trace_steadiness.odd_step([(step.times.span_us, step.name) for step in steps])
    else:
        doubts += trace_steadiness.odd_pause(trace)
    return tuple(doubts)


def _host_is_larger(attribution: TimeAttribution, verdict: Verdict) -> bool:
    """Whether another bottleneck was named although the trace shows more time of the host's."""
    named = [kind for kind in Bottleneck if kind.value == verdict.value]
    return any(attribution.classes[kind] < attribution.classes[Bottleneck.HOST] for kind in named)


def _confidence(
    trace: RankTrace, device: DeviceFacts | None, attribution: TimeAttribution, verdict: Verdict, ranks: int
) -> Confidence:
    steps = judged_steps(trace.steps)
    few = 0 < len(steps) < FEW_STEPS or (not steps and bool(trace_steadiness.odd_pause(trace)))
    merged = _notes_of(trace, "several-processes")
    if verdict is Verdict.INCONCLUSIVE or few or merged or trace.skipped.because is not None:
        return Confidence.LOW
    unsure = (
        len(steps) < ENOUGH_STEPS
        or device is None
        or verdict in (Verdict.HOST, Verdict.BALANCED)
        or _host_is_larger(attribution, verdict)
        or (verdict is Verdict.NETWORK and ranks == 1)
        or len(trace.devices) > 1
        or trace_steadiness.spread([step.times.span_us for step in steps]) > UNSTEADY
    )
    return Confidence.MEDIUM if unsure else Confidence.HIGH


def _chosen(ranks: Sequence[RankTrace], collectives: MatchedCollectives | None) -> str:
    """Why one of several files is judged."""
    if all(trace.times is None for trace in ranks):
        return "the first: traces of the CPU alone do not show who waits for whom"
    if all(trace.times is not None and not trace.times.comm_us for trace in ranks):
        return "and no file holds any communication: they may not be the ranks of one job"
    if collectives is not None and collectives.late is None:
        return "no rank waits for another"
    if collectives is None:
        return "which communicates least: collectives of the ranks do not match"
    return "which the others wait for"


def _notes(
    ranks: Sequence[RankTrace],
    judged: RankTrace,
    collectives: MatchedCollectives | None,
) -> tuple[Remark, ...]:
    """What a reader should know."""
    notes: list[Remark] = []
    if len(ranks) > 1:
        name = judged.file if judged.rank is None else f"rank {judged.rank}"
        notes.append(Note("judged-file", {"name": name, "why": _chosen(ranks, collectives)}))
    notes += left_out(judged)
    if not judged.steps:
        notes.append(Note("no-steps-marked"))
    for trace in ranks:
        notes += [note for note in trace.notes if note not in notes]
    return tuple(notes)
