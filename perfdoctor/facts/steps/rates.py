"""Computes the rates that trainers quote: TrainingRates."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

from perfdoctor.facts.data.training_loader import trained_on
from perfdoctor.facts.device.profiler_windows import MeasuredWindows
from perfdoctor.facts.registry import fact
from perfdoctor.facts.script.recomputation import RecomputationFacts
from perfdoctor.facts.steps.span import MeasuredSpan
from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.measured import StepFacts
from perfdoctor.model.missing import Missing
from perfdoctor.model.rates import TrainingRates
from perfdoctor.runs.types import RankRecords
from perfdoctor.trace.results import RankTrace
from perfdoctor.wire.events.loaders import PaddingEvent
from perfdoctor.wire.events.training import BatchLayoutEvent

SHAPES = "shapes"  # the window that tells what operators compute
MODELS = 0  # how the probe numbers what models are called with
KINDS = 4  # different values in rows of integers: fewer are labels or flags, not texts
NO_LOADER = "samples: no loader told how many a step trains on"
NO_TEXTS = "tokens: no batch of rows of integers (B x T) was seen"


@fact
def training_rates(
    rank: RankRecords,
    span: MeasuredSpan,
    step: StepFacts,
    windows: MeasuredWindows,
    recomputation: RecomputationFacts | Missing | None,
) -> TrainingRates:
    """Samples, tokens and operations per second, and how far they are from what the device can do."""
    how, unknown = [], []
    layouts = rank.of(BatchLayoutEvent)
    time_first = [event for event in layouts if event.dimension]
    width = _token_width(rank, span, time_first)
    if time_first and step.samples_per_s is not None:
        how.append(
            f"samples: the second dimension of a batch, as {time_first[0].told_by} tells; time is the first"
        )
    if step.samples_per_s is None:
        unknown.append(_uncounted(layouts))
    elif width is None:
        unknown.append(NO_TEXTS)
    else:
        how.append(f"tokens: rows of {width:,.0f} integers in batches that were looked at, with padding")
    trace = windows.get(SHAPES)
    done = _done(trace) if trace is not None else None
    peak_s = None
    if trace is None:
        unknown.append("FLOP: no torch.profiler window with shapes was recorded")
    elif done is None:
        unknown.append("FLOP: the window with shapes holds no product, convolution or attention")
    else:
        how.append(_counted(isinstance(recomputation, RecomputationFacts)))
        peak_s = _peak_s(trace, done)
        if peak_s is None:
            device = trace.device or "this CPU"
            unknown.append(f"MFU: the peak rate of {device} is not known for {_types(done)}")
        elif trace.peak is not None:
            how.append(f"MFU: of the dense peak for {_types(done)} ({trace.peak.source})")
    return TrainingRates(
        samples_per_s=step.samples_per_s,
        tokens_per_s=step.samples_per_s * width if step.samples_per_s and width else None,
        token_width=width,
        flops_per_step=done.flops if done else None,
        flops_per_s=done.flops / step.mean_s if done and step.mean_s else None,
        peak_flops_per_s=done.flops / peak_s if done and peak_s else None,
        flops_utilisation=peak_s / step.mean_s if peak_s and step.mean_s else None,
        how=tuple(how),
        unknown=tuple(unknown),
    )


def _uncounted(layouts: Sequence[BatchLayoutEvent]) -> str:
    """Why samples are not counted."""
    unknown = next((event for event in layouts if event.dimension is None), None)
    if unknown is None:
        return NO_LOADER
    what = "integers" if unknown.integers else "numbers"
    if unknown.of_one:
        rows = f"{unknown.rows} x {unknown.columns} {what}"
        return f"samples: a loader takes for one sample what a model is given as {rows}, a batch perhaps"
    return f"samples: of batches of {unknown.rows} x {unknown.columns} {what} nothing tells which dimension"


def _token_width(
    rank: RankRecords, span: MeasuredSpan, time_first: Sequence[BatchLayoutEvent]
) -> float | None:
    """Positions of a text in the training loader's batches, else in what models are called with."""
    if time_first:
        times = [event.rows for event in time_first if event.integers]
        return sum(times) / len(times) if times else None
    looks = [event for event in rank.of(PaddingEvent) if event.width and event.loader is not None]
    origin = trained_on(rank, span)
    of_origin = [event for event in looks if event.loader in origin]
    by_place: dict[int, list[PaddingEvent]] = defaultdict(list)
    for event in of_origin or [event for event in looks if event.loader == MODELS]:
        by_place[event.place].append(event)
    for _, events in sorted(by_place.items()):  # the first is the input, others are labels of the same width
        if max(event.kinds for event in events) >= KINDS:
            return sum(event.width for event in events) / len(events)
    return None


@dataclass(frozen=True)
class _Done:
    """What operators of known work compute in a step."""

    flops: float
    by_type: Mapping[str, float]  # number type: operations; nothing where it is not known


def _done(trace: RankTrace) -> _Done | None:
    """By the shapes of a window, in its marked steps."""
    steps = len(trace.steps)
    if trace.times is None:
        flops = sum((use.flops or 0.0) * use.count for use in trace.host_work)
        return _Done(flops / steps, {}) if flops and steps else None
    by_type: defaultdict[str, float] = defaultdict(float)
    for use in trace.work:
        by_type[use.dtype or "unknown"] += use.flops * use.count
    if not by_type or not steps:
        return None
    return _Done(sum(by_type.values()) / steps, {dtype: done / steps for dtype, done in by_type.items()})


def _peak_s(trace: RankTrace, done: _Done) -> float | None:
    """Seconds that the same operations take at the device's peak, or None where one is not known."""
    rates = trace.peak.flops_per_s if trace.peak is not None else {}
    if not done.by_type or not done.by_type.keys() <= rates.keys():
        return None
    return sum(flops / rates[dtype] for dtype, flops in done.by_type.items())


def _types(done: _Done) -> str:
    return " and ".join(sorted(done.by_type, key=lambda dtype: -done.by_type[dtype])) or "its numbers"


def _counted(again: bool) -> str:
    more = ", with what checkpointing computes again" if again else ""
    return f"FLOP: products, convolutions and attention of a step by their shapes{more}"
