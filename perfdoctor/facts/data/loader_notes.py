"""Words what follows from a loader's curve: what to set, what to mind, and why there may be no curve."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from perfdoctor.facts.decode import location, number
from perfdoctor.model.loader_curve import LoaderCurve
from perfdoctor.runs.types import RankRecords, RunRecords
from perfdoctor.wire.events.loader_benchmark import (
    LoadingFailedEvent,
    LoadingNoneEvent,
    LoadingRepeatsEvent,
    LoadingSkippedEvent,
    LoadingStopEvent,
)
from perfdoctor.wire.events.loaders import DEFAULT_PREFETCH, LoaderEvent

NOISY = 0.05  # a spread as large as the differences that the knee is about
UNCLEAR = 0.15  # three times the 5 % that a setting is judged by
DEVIATIONS = 3  # a difference of three standard errors is no chance
MOSTLY = 0.5  # of a batch's cost: more than half of it
RISING = 1.1  # the last setting is this much faster than any other: the end of the curve was not seen
BOUND = 0.8  # of what something allows is reached: that is what bounds the curve
PROCESSES = re.compile(r" \(pid(?:\(s\))? [\d, ]+\)")  # in torch's words about workers that died
NEVER = "the script never iterated a torch DataLoader"


# ---------------------------------------------------------------- what to set


def is_unclear(curve: LoaderCurve) -> bool:
    """Whether the figures are so doubtful that what they say could be chance."""
    doubt = max(curve.spread, curve.contention)
    return doubt > UNCLEAR and (curve.speedup or 0.0) < 1 + DEVIATIONS * doubt


def headline(curve: LoaderCurve) -> str:
    """The result as a sentence without its full stop."""
    now, speedup = curve.now, curve.speedup
    if is_unclear(curve):
        if curve.contention > curve.spread:
            share = f"{curve.contention:.0%} of a worker's time"
            return f"No clear answer: other programs held the cores for {share}"
        return f"No clear answer: the measurements vary by up to {curve.spread:.0%}"
    if len(curve.settings) == 1:
        return f"Only {_workers(curve.settings[0].workers)} could be measured"
    if now is None or speedup is None:
        return f"Loading is fastest with {_workers(curve.knee)}"
    if curve.knee == now.workers == 0:
        return "Workers would not load faster"
    if curve.knee == now.workers:
        return f"{_workers(now.workers)}, as now: no measured setting loads faster"
    if curve.knee < now.workers:
        return f"{_workers(curve.knee)} would load as fast as {now.workers} now"
    return f"{_workers(curve.knee)} would load {speedup:.1f}× as fast as {now.workers} now"


def code(curve: LoaderCurve) -> str | None:
    """The options to give, as the user would write them; None where there is nothing to change."""
    loader = curve.loader
    if loader is None or curve.knee == loader.workers or is_unclear(curve):
        return None
    prefetch = loader.prefetch or DEFAULT_PREFETCH
    if loader.library == "transformers":
        more = f", dataloader_prefetch_factor={prefetch}, dataloader_persistent_workers=True"
        return f"TrainingArguments(..., dataloader_num_workers={curve.knee}{more if curve.knee else ''})"
    more = f", prefetch_factor={prefetch}, persistent_workers=True" if curve.knee else ""
    return f"DataLoader(..., num_workers={curve.knee}{more})"


def reasons(curve: LoaderCurve) -> list[str]:
    """What speaks for the setting, with numbers."""
    return [*_dominant(curve), *_shape(curve)]


def _dominant(curve: LoaderCurve) -> Iterator[str]:
    """What a batch's cost is made of."""
    cost = curve.cost
    if cost is None:
        return
    parts = {
        "reading and transforming": cost.read_s,
        "collating": cost.collate_s,
        "transfer to the main process": cost.hand_over_s or 0.0,
    }
    whole_s = sum(parts.values())
    if whole_s <= 0:
        return
    name, most_s = max(parts.items(), key=lambda part: part[1])
    maker = "" if cost.hand_over_s is None else " in a worker"
    yield f"{name} takes {most_s / whole_s:.0%} of the time to prepare a batch{maker}"
    if cost.blocked * cost.read_s > MOSTLY * whole_s:
        yield (
            f"{cost.blocked:.0%} of reading neither computes nor waits for a core:"
            " it waits for a disk, a network or a lock"
        )


def _shape(curve: LoaderCurve) -> Iterator[str]:
    """What bounds the curve where it ends."""
    top = curve.at(curve.best)
    rate = curve.rate(top) if top is not None else None
    if top is None or rate is None:
        return
    before = max(
        (
            one_rate.batches_per_s
            for one in curve.settings
            if one is not top and (one_rate := curve.rate(one))
        ),
        default=0.0,
    )
    if top is curve.settings[-1] and rate.batches_per_s > RISING * before > 0:
        yield f"loading still speeds up at {_workers(top.workers)}: more may be faster"
    elif curve.knee == 0 and top.workers == 0 and len(curve.settings) > 1:
        yield "transferring batches costs more than workers save; but workers load while the script computes"
    elif top.synthetic is not None and rate.batches_per_s > BOUND * top.synthetic.batches_per_s:
        yield "collating and transfer limit loading: without reading it would not be much faster"
    elif rate.cpu_s * rate.batches_per_s > BOUND * curve.cores:
        busy = rate.cpu_s * rate.batches_per_s
        yield f"{busy:.1f} of {curve.cores:g} usable cores are busy: the cores limit loading"


def _workers(count: int) -> str:
    return "1 worker" if count == 1 else f"{count} workers"


# ---------------------------------------------------------------- what to mind


def notes(rank: RankRecords, curve: LoaderCurve) -> Iterator[str]:
    """What a reader of the curve has to know."""
    if curve.outcome != "whole":
        yield f"the measurement was {curve.outcome}: these are the results so far"
    for entry in rank.of(LoadingRepeatsEvent)[:1]:
        yield (
            f"{_workers(_count(entry))} give the same samples, each all of them: the dataset has to"
            " share itself out by get_worker_info(); until it does, more than 1 worker only repeats data"
        )
    yield from failures(rank, curve.cwd)
    yield from _stops(rank)
    if curve.exit_code:
        yield f"ended early, the script exited with status {curve.exit_code}: ignore its messages about that"
    yield from _without_cold(curve)
    if curve.contention > NOISY:
        yield (
            f"other programs held the cores for up to {curve.contention:.0%} of a worker's time:"
            " measure again on an idle machine"
        )
    if curve.spread > NOISY:
        yield (
            f"the measurements vary by up to {curve.spread:.0%}: the machine was busy, or batches differ;"
            " measure again, longer (--seconds)"
        )
    if curve.ranks > 1:
        cores = max(1, int(curve.cores) // curve.ranks)
        yield f"one of {curve.ranks} ranks was measured, alone: in training each has {cores} of the cores"
    if curve.loader is not None and curve.loader.built > 1:
        yield (
            f"the script had built {curve.loader.built} DataLoaders: this is number {curve.loader.id};"
            " another one: --number N or --at FILE:LINE"
        )


def _count(entry: LoadingRepeatsEvent | LoadingStopEvent) -> int:
    """The workers of an event."""
    return entry.workers or 0


def failures(rank: RankRecords, cwd: str) -> Iterator[str]:
    """What the script's own code raised, a sentence for each error, with the settings that met it."""
    met: dict[str, list[int | None]] = {}
    for entry in rank.of(LoadingFailedEvent):
        met.setdefault(_failure(entry, cwd), []).append(entry.workers)
    for sentence, settings in met.items():
        counts = [str(count) for count in settings if count is not None]
        plural = "" if counts == ["1"] else "s"
        yield f"with {', '.join(counts)} worker{plural}: {sentence}" if counts else sentence


def _failure(entry: LoadingFailedEvent, cwd: str) -> str:
    if entry.dry:
        if entry.first:
            return "no batch arrived: the dataset is empty, smaller than one batch, or already consumed"
        return "the dataset can be iterated only once"
    at = location(entry.at)
    error = PROCESSES.sub("", entry.error or "")
    return f"{error} ({at.file.removeprefix(cwd.rstrip('/') + '/')}:{at.line})" if at is not None else error


STOPS = {
    "time": "time ran out before {} could be measured: give more with --seconds",
    "memory": "{} were not tried: they would take more memory than is free",
    "shared memory": "{} were not tried: their batches would not fit into /dev/shm",
    "flat": "{} were not tried: the last two settings brought no gain",
}


def _stops(rank: RankRecords) -> Iterator[str]:
    for entry in rank.of(LoadingStopEvent):
        sentence = STOPS.get(entry.because)
        if sentence is not None:
            yield sentence.format(_workers(_count(entry)))


def _without_cold(curve: LoaderCurve) -> Iterator[str]:
    missing = [str(one.workers) for one in curve.settings if one.warm is not None and one.cold is None]
    if not missing or curve.loader is None:
        return
    if curve.loader.iterable:
        yield "an iterable dataset yields its first samples to every setting: only one setting can be cold"
    else:
        yield f"no cold samples were left for {', '.join(missing)} workers"


# ---------------------------------------------------------------- why there is nothing


def why_nothing(records: RunRecords) -> tuple[str, str | None]:
    """Why no loader was measured, and what to type next."""
    said = records.run.get("notes")
    if isinstance(said, list) and said:
        return "; ".join(map(str, said)), None
    ranks = list(records.ranks.values())
    if any(rank.of(LoadingNoneEvent) for rank in ranks):
        return "the script trains without a DataLoader: it updated its model before it iterated one", _RUN
    failed = number(records.run.get("exit_code"))
    if failed:
        return f"the script ended with status {failed:.0f} before its loader could be measured", None
    if any(rank.of(LoadingSkippedEvent) for rank in ranks):
        hint = "if it is the right one: perfdoctor loader --number N ..."
        return f"{NEVER} while gradients were on, as training does ({_built(ranks)})", hint
    if any(rank.of(LoaderEvent) for rank in ranks):
        return f"the script ended before it built the DataLoader to measure ({_built(ranks)})", None
    return NEVER, _RUN


_RUN = "see what its steps wait for: perfdoctor run ..."


def _built(ranks: Sequence[RankRecords]) -> str:
    """`1: train.py:41, 2: train.py:50`."""
    entries = [entry for rank in ranks[:1] for entry in rank.of(LoaderEvent)]
    places = [(entry.id, location(entry.at)) for entry in entries]
    return ", ".join(f"{key}: {at.file}:{at.line}" if at else f"{key}" for key, at in places)
