"""Measured traces become a report: what caused each second of the steps, a verdict, findings.

The verdict is that of one rank: the one the others wait for, if there are several. A trace inflates the
host's time and leaves the device's alone, so what it says against the host is never more than likely.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from perfdoctor import catalogue
from perfdoctor.analysis.device import (
    PROFILED,
    AttentionFacts,
    CopyFacts,
    DeviceFacts,
    KernelFacts,
    MatrixFacts,
    WaitFacts,
    attention_facts,
    blamed_shares,
    copy_facts,
    device_facts,
    judged_steps,
    kernel_facts,
    matrix_facts,
    wait_facts,
    without_waiting,
)
from perfdoctor.analysis.diagnosis import NOTHING_WORTHWHILE, UNSTEADY, WORTHWHILE, Blame, ceilings, decide
from perfdoctor.analysis.exchange import CommFacts, of_device
from perfdoctor.analysis.facts import PER_STEP, Facts
from perfdoctor.analysis.findings import judge
from perfdoctor.analysis.ranks import RanksFacts, ranks_facts
from perfdoctor.analysis.windows import ON_DEVICE
from perfdoctor.model import (
    Bottleneck,
    Confidence,
    Diagnosis,
    Finding,
    NotJudged,
    RunFacts,
    StepFacts,
    Verdict,
)
from perfdoctor.trace.measure import INVALID
from perfdoctor.trace.ranks import Together, together
from perfdoctor.trace.results import IdleCause, Launches, Peak, RankTrace

FEW_EVENTS = 20  # on the device or, without one, operators: fewer are no training step
FEW_STEPS = 3  # below it one odd step decides
ENOUGH_STEPS = 5  # what a window of a run holds; from here on chance no longer decides on steady steps
ODD, ODD_SHARE = 3.0, 0.25  # times the median step, and of all steps' time: from here one step sets the tone
IN_DOUBT = 0.5  # of the idle time without a cause: the class it is charged to is a guess

ONLY_A_RUN_TELLS = "a trace does not tell: perfdoctor run measures it"
ONE_RANK = "it takes the traces of several ranks"
NO_DEVICE = "the trace holds no work of a device"


@dataclass(frozen=True)
class TraceReport:
    """Traces, and what follows from them. The verdict and the findings are those of rank `judged`."""

    ranks: tuple[RankTrace, ...]
    judged: RankTrace
    device: DeviceFacts | None  # of the judged rank
    together: Together | None  # what the ranks do to each other
    diagnosis: Diagnosis
    findings: tuple[Finding, ...]
    not_judged: tuple[NotJudged, ...]
    notes: tuple[str, ...] = ()


def report(ranks: Sequence[RankTrace]) -> TraceReport:
    """Everything a renderer needs of one trace, or of one for each rank."""
    found = together(ranks)
    judged = awaited(ranks, found)
    device = _device(judged, ranks, found)
    blamed = blame(judged, device)
    judgement = judge(catalogue.tips(), _facts(judged, device, ranks, found), blamed)
    return TraceReport(
        ranks=tuple(ranks),
        judged=judged,
        device=device,
        together=found,
        diagnosis=conclude(judged, device, blamed, judgement.findings, len(ranks)),
        findings=judgement.findings,
        not_judged=judgement.not_judged,
        notes=(*_notes(ranks, judged, device, found), *judgement.notes),
    )


def awaited(ranks: Sequence[RankTrace], found: Together | None) -> RankTrace:
    """The rank that the others wait for. Where collectives cannot be matched, it communicates least."""
    if found is not None and found.late is not None:
        return next(trace for part, trace in zip(found.ranks, ranks, strict=True) if part.rank == found.late)
    return min(ranks, key=lambda rank: rank.times.exposed_comm_us if rank.times else 0.0)


def _device(trace: RankTrace, ranks: Sequence[RankTrace], found: Together | None) -> DeviceFacts | None:
    """Where the device's time goes; what it waits for other ranks is told apart where they are there."""
    device = device_facts(trace)
    if device is None or found is None or trace.times is None:
        return device
    own = next(part for part, other in zip(found.ranks, ranks, strict=True) if other is trace)
    waiting = own.waiting_us / own.comm_us if own.comm_us > 0 else 0.0
    return without_waiting(device, waiting * device.exposed_comm)


def blame(trace: RankTrace, device: DeviceFacts | None) -> Blame | None:
    """What caused each second, or None where the trace covers no time."""
    classes = blamed_shares(device) if device is not None else _of_host(trace)
    total = sum(classes.values())
    if total <= 0:
        return None
    classes = {kind: share / total for kind, share in classes.items()}
    return Blame(classes, ceilings(classes))


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
    trace: RankTrace, device: DeviceFacts | None, ranks: Sequence[RankTrace], found: Together | None
) -> Facts:
    """What tips can ask for."""
    duration_s = (trace.end_ns - trace.begin_ns) / 1e9
    run = RunFacts(trace.file, (), None, len(ranks), trace.device or "cpu", duration_s)
    missing = dict.fromkeys((StepFacts, *PER_STEP), ONLY_A_RUN_TELLS)
    little = _too_little(trace)
    if device is None or little is not None:
        attention = None if little else attention_facts(trace, None)
        known: dict[type, object] = {} if attention is None else {AttentionFacts: attention}
        return Facts(run, known, missing | dict.fromkeys(ON_DEVICE, little or NO_DEVICE))
    groups: dict[type, object] = {
        DeviceFacts: device,
        CommFacts: of_device(device),
        KernelFacts: kernel_facts(trace, device),
        MatrixFacts: matrix_facts(trace, device),
        AttentionFacts: attention_facts(trace, device),
        CopyFacts: copy_facts(trace, device),
        WaitFacts: wait_facts(trace),
        Launches: trace.launches,
        Peak: trace.peak,
        RanksFacts: ranks_facts(ranks, found),
    }
    if len(ranks) == 1:
        missing[RanksFacts] = ONE_RANK
    if trace.peak is None:
        missing[Peak] = f"the peak rates of {trace.device or 'the device'} are not known"
    if trace.launches is None:
        missing[Launches] = "the trace holds no launches, only the device's work"
    if not trace.matrices:
        missing[MatrixFacts] = "no shapes of matrix products were recorded (record_shapes=True)"
    if not trace.runtime_us:
        missing[WaitFacts] = "the trace holds no calls into the device's runtime"
    return Facts(run, {kind: group for kind, group in groups.items() if group is not None}, missing)


def conclude(
    trace: RankTrace,
    device: DeviceFacts | None,
    blamed: Blame | None,
    findings: Sequence[Finding],
    ranks: int = 1,
) -> Diagnosis:
    """The verdict, with what speaks for it."""
    if blamed is None:
        nothing = dict.fromkeys(Bottleneck, 0.0)
        why = ("the trace covers no time",)
        return Diagnosis(
            Verdict.INCONCLUSIVE, 0.0, 1.0, Confidence.LOW, why, nothing, dict.fromkeys(Bottleneck, 1.0)
        )
    verdict, kind = decide(blamed, findings, watching=1 - 1 / PROFILED[1])
    blames_host = verdict is Verdict.HOST or (
        verdict is Verdict.BALANCED and Bottleneck.HOST in blamed.ranked[:2]
    )
    doubt = _too_little(trace) or (_unexplained(trace, device) if blames_host else None)
    if doubt is not None:
        verdict, kind = Verdict.INCONCLUSIVE, blamed.ranked[0]
    ceiling = blamed.ceilings[kind]
    if (
        verdict is Verdict.COMPUTE
    ):  # most computing is the training itself: only what a finding removes can go
        ceiling = max((finding.gain.high for finding in findings if finding.bottleneck is kind), default=1.0)
    because = [doubt] if doubt is not None else []
    because.append(f"of {_judged_time(trace, device)}: {blamed}")
    if verdict is Verdict.HEALTHY:
        because.append(NOTHING_WORTHWHILE)
    return Diagnosis(
        verdict=verdict,
        share=blamed.classes[kind],
        ceiling_speedup=ceiling,
        confidence=_confidence(trace, device, blamed, verdict, ranks),
        because=(*because, *_doubts(trace, device, blamed, verdict, ranks)),
        classes=blamed.classes,
        ceilings=blamed.ceilings,
    )


def _too_little(trace: RankTrace) -> str | None:
    """Why nothing can be concluded from what is there, or None. Marked steps are enough, however small."""
    if INVALID in trace.notes:
        return INVALID
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
    """Why the host cannot be blamed, or None."""
    if device is None:
        waits = "the host's own work and its waits for other ranks look alike in a trace of the CPU"
        return waits if (trace.world_size or 1) > 1 else None
    unknown = device.idle.get(IdleCause.UNKNOWN, 0.0)
    if unknown <= IN_DOUBT * sum(device.idle.values()):
        return None
    return f"the device idles {unknown:.0%} of the time, and the trace holds no launches that say why"


def _judged_time(trace: RankTrace, device: DeviceFacts | None) -> str:
    steps = len(judged_steps(trace.steps))
    if steps:
        return f"{steps:,} steps" if steps > 1 else "the one step in the trace"
    return "the time from the device's first event to its last" if device else "the time the trace covers"


def _doubts(
    trace: RankTrace, device: DeviceFacts | None, blamed: Blame, verdict: Verdict, ranks: int
) -> tuple[str, ...]:
    """What lowers the confidence, in words."""
    said = []
    if verdict is Verdict.DATA:
        said.append(
            "what a batch costs is not in a trace: perfdoctor run measures it, and says how many workers"
        )
    if verdict is Verdict.HOST and device is None:
        said.append("profiling slows Python: without it this share is smaller than the trace shows")
    elif verdict is Verdict.HOST:
        said.append("profiling slows the host: without it the device waits less than this trace shows")
    elif _host_is_larger(blamed, verdict):
        said.append("profiling slows the host: its share is likely smaller than this trace shows")
    if verdict is Verdict.HEALTHY and blamed.classes[Bottleneck.DATA] >= WORTHWHILE:
        said.append("no trace says what the waits for data could be cut to: perfdoctor run does")
    if len(trace.devices) > 1:
        busy = "time counts as busy while any of them is, and each may idle"
        said.append(f"{len(trace.devices)} devices worked: {busy}")
    if verdict is Verdict.NETWORK and ranks == 1:
        said.append("one rank's trace cannot tell moving bytes from waiting for another rank")
    steps = judged_steps(trace.steps)
    if 0 < len(steps) < FEW_STEPS:
        said.append(f"fewer than {FEW_STEPS} steps: one odd step decides")
    elif steps:
        said += _odd_step([(step.times.span_us, step.name) for step in steps])
    return tuple(said)


def _odd_step(steps: Sequence[tuple[float, str]]) -> list[str]:
    """What to say of the longest of some steps (microseconds, name) if it decides what all of them show."""
    usual_us = sorted(steps)[len(steps) // 2][0]
    longest_us, name = max(steps)
    share = longest_us / sum(span_us for span_us, _ in steps)
    if longest_us < ODD * usual_us or share < ODD_SHARE:
        return []
    return [f"{name} alone takes {share:.0%} of the time: what it does besides the others weighs that much"]


def _host_is_larger(blamed: Blame, verdict: Verdict) -> bool:
    """Whether another bottleneck was named although the trace shows more time of the host's."""
    named = [kind for kind in Bottleneck if kind.value == verdict.value]
    return any(blamed.classes[kind] < blamed.classes[Bottleneck.HOST] for kind in named)


def _confidence(
    trace: RankTrace, device: DeviceFacts | None, blamed: Blame, verdict: Verdict, ranks: int
) -> Confidence:
    steps = judged_steps(trace.steps)
    low = verdict is Verdict.INCONCLUSIVE or (0 < len(steps) < FEW_STEPS) or trace.skipped.bytes > 0
    if low:
        return Confidence.LOW
    unsure = (
        len(steps) < ENOUGH_STEPS
        or device is None
        or verdict in (Verdict.HOST, Verdict.BALANCED)
        or _host_is_larger(blamed, verdict)
        or (verdict is Verdict.NETWORK and ranks == 1)
        or len(trace.devices) > 1
        or _spread([step.times.span_us for step in steps]) > UNSTEADY
    )
    return Confidence.MEDIUM if unsure else Confidence.HIGH


def _spread(spans_us: Sequence[float]) -> float:
    """Standard deviation over mean."""
    mean = sum(spans_us) / len(spans_us)
    variance = sum((span - mean) ** 2 for span in spans_us) / len(spans_us)
    return float(variance**0.5 / mean) if mean > 0 else 0.0


def _chosen(ranks: Sequence[RankTrace], found: Together | None) -> str:
    """Why one of several files is judged."""
    if all(trace.times is None for trace in ranks):
        return "the first: traces of the CPU alone do not tell who waits for whom"
    if all(trace.times is not None and not trace.times.comm_us for trace in ranks):
        return "and no file holds any communication: they may not be the ranks of one job"
    if found is not None and found.late is None:
        return "no rank waits for another"
    return "which the others wait for"


def _notes(
    ranks: Sequence[RankTrace], judged: RankTrace, device: DeviceFacts | None, found: Together | None
) -> tuple[str, ...]:
    """What a reader should know."""
    notes = []
    if len(ranks) > 1:
        name = judged.file if judged.rank is None else f"rank {judged.rank}"
        notes.append(f"verdict and findings are those of {name}, {_chosen(ranks, found)}")
    if device is not None and device.left_out:
        notes.append(
            f"{device.left_out} took much longer than the steps after it and was left out: it warms up"
        )
    if not judged.steps:
        notes.append("no step is marked in the trace (profiler.step()): shares are of the whole")
    for trace in ranks:
        notes += [note for note in trace.notes if note not in notes]
    return tuple(notes)
