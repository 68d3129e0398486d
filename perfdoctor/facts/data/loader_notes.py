"""Tells what follows from a loader's curve: what to set, what to mind, and why there may be no curve."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

from perfdoctor.facts.decode import location, number
from perfdoctor.model.loader_curve import LoaderCurve
from perfdoctor.model.note import Note, Remark
from perfdoctor.model.units import count
from perfdoctor.redaction import redact
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
SAMPLER = "drawing indices"
BOUND = 0.8  # of what something allows is reached: that is what bounds the curve
PROCESSES = re.compile(r" \(pid(?:\(s\))? [\d, ]+\)")  # in torch's words about workers that died


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


def reasons(curve: LoaderCurve) -> list[Note]:
    """What speaks for the setting, with numbers."""
    return [*_dominant(curve), *_shape(curve)]


def _dominant(curve: LoaderCurve) -> Iterator[Note]:
    """What a batch's cost is made of."""
    cost = curve.cost
    if cost is None:
        return
    parts = {
        SAMPLER: cost.draw_s,
        "reading and transforming": cost.read_s,
        "collating": cost.collate_s,
        "worker transfer": cost.hand_over_s or 0.0,
    }
    whole_s = sum(parts.values())
    if whole_s <= 0:
        return
    name, most_s = max(parts.items(), key=lambda part: part[1])
    if name == SAMPLER:
        yield Note("sampler-takes", {"share": most_s / whole_s})
    else:
        slug = "batch-takes" if cost.hand_over_s is None else "batch-in-worker-takes"
        yield Note(slug, {"part": name, "share": most_s / whole_s})
    if cost.blocked * cost.read_s > MOSTLY * whole_s:
        yield Note("reading-blocks", {"share": cost.blocked})


def _shape(curve: LoaderCurve) -> Iterator[Note]:
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
        yield Note("loading-still-rises", {"workers": top.workers})
    elif curve.knee == 0 and top.workers == 0 and len(curve.settings) > 1:
        yield Note("transfer-costs-more")
    elif top.synthetic is not None and rate.batches_per_s > BOUND * top.synthetic.batches_per_s:
        yield Note("collating-limits")
    elif rate.cpu_s * rate.batches_per_s > BOUND * curve.cores:
        yield Note("cores-limit", {"busy": rate.cpu_s * rate.batches_per_s, "cores": curve.cores})


def _workers(number: int) -> str:
    return count(number, "worker")


# ---------------------------------------------------------------- what to mind


def notes(rank: RankRecords, curve: LoaderCurve) -> Iterator[Note]:
    """What a reader of the curve has to know."""
    if curve.outcome != "whole":
        yield Note("measurement-ended", {"outcome": curve.outcome})
    for entry in rank.of(LoadingRepeatsEvent)[:1]:
        yield Note("workers-repeat", {"workers": _count(entry)})
    yield from failures(rank, curve.cwd)
    yield from _stops(rank)
    if curve.exit_code:
        yield Note("script-exited", {"status": curve.exit_code})
    yield from _without_cold(curve)
    if curve.contention > NOISY:
        yield Note("cores-held", {"share": curve.contention})
    if curve.spread > NOISY:
        yield Note("loading-varies", {"share": curve.spread})
    if curve.ranks > 1:
        cores = max(1, int(curve.cores) // curve.ranks)
        yield Note("one-rank-alone", {"ranks": curve.ranks, "cores": cores})
    if curve.loader is not None and curve.loader.built > 1:
        yield Note("one-of-several-loaders", {"built": curve.loader.built, "number": curve.loader.id})


def _count(entry: LoadingRepeatsEvent | LoadingStopEvent) -> int:
    """The workers of an event."""
    return entry.workers or 0


def failures(rank: RankRecords, cwd: str) -> Iterator[Note]:
    """What the script's own code raised: each error, with the settings that met it."""
    met: dict[Note, list[int]] = {}
    for entry in rank.of(LoadingFailedEvent):
        settings = met.setdefault(_failure(entry, cwd), [])
        if entry.workers is not None:
            settings.append(entry.workers)
    for failure, settings in met.items():
        yield Note("failed-with", {"workers": sorted(settings), "failure": failure}) if settings else failure


def _failure(entry: LoadingFailedEvent, cwd: str) -> Note:
    if entry.dry:
        return Note("no-batch" if entry.first else "iterated-once")
    at = location(entry.at)
    error = redact.text(PROCESSES.sub("", entry.error or ""))
    if at is None:
        return Note("loading-raised", {"error": error})
    file = at.file.removeprefix(cwd.rstrip("/") + "/")
    return Note("loading-raised-at", {"error": error, "file": file, "line": at.line})


STOPS = {
    "time": "no-time-for",
    "memory": "no-memory-for",
    "shared memory": "no-shared-memory-for",
    "flat": "no-gain-before",
}


def _stops(rank: RankRecords) -> Iterator[Note]:
    for entry in rank.of(LoadingStopEvent):
        slug = STOPS.get(entry.because)
        if slug is not None:
            yield Note(slug, {"workers": _count(entry)})


def _without_cold(curve: LoaderCurve) -> Iterator[Note]:
    missing = [one.workers for one in curve.settings if one.warm is not None and one.cold is None]
    if not missing or curve.loader is None:
        return
    if curve.loader.iterable:
        yield Note("cold-only-once")
    else:
        yield Note("no-cold-samples", {"workers": missing})


# ---------------------------------------------------------------- why there is nothing


def why_nothing(records: RunRecords) -> tuple[Remark, str | None]:
    """Why no loader was measured, and what to type next."""
    said = records.run.get("notes")
    if isinstance(said, list) and said:
        return "; ".join(map(str, said)), None
    ranks = list(records.ranks.values())
    if none := [entry for rank in ranks for entry in rank.of(LoadingNoneEvent)]:
        built = _built(ranks)
        if built and none[0].asked:
            return Note("loader-not-built", {"updates": none[0].updates, "built": built}), None
        return Note("no-loader"), _RUN
    failed = number(records.run.get("exit_code"))
    if failed:
        return Note("failed-before-loader", {"status": failed}), None
    if any(rank.of(LoadingSkippedEvent) for rank in ranks):
        hint = "if it is the right one: perfdoctor loader --number N ..."
        return Note("never-iterated-with-gradients", {"built": _built(ranks)}), hint
    if any(rank.of(LoaderEvent) for rank in ranks):
        return Note("ended-before-loader", {"built": _built(ranks)}), None
    return Note("never-iterated"), _RUN


_RUN = "see what its steps wait for: perfdoctor run ..."


def _built(ranks: Sequence[RankRecords]) -> str:
    """`1: train.py:41, 2: train.py:50`."""
    entries = [entry for rank in ranks[:1] for entry in rank.of(LoaderEvent)]
    places = [(entry.id, location(entry.at)) for entry in entries]
    return ", ".join(f"{key}: {at.file}:{at.line}" if at else f"{key}" for key, at in places)
