"""Looks at all calls of modules inside a step become facts: repeated calls, biased layers, number types."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median

from perfdoctor.analysis.records import Json, location, number, whole
from perfdoctor.analysis.source import Sources, statements
from perfdoctor.model import Location
from perfdoctor.recorded import RankRecords

FEW_LOOKS = 3  # fewer do not tell what every step does


@dataclass(frozen=True)
class Repeat:
    """Two places whose calls of one module gave the same from the same arguments."""

    module: str
    first: Location
    again: Location
    share: float  # of the steps looked at, the time of the second call
    seen: float  # share of looks that saw it
    recording: bool  # both recorded gradients


@dataclass(frozen=True)
class RepeatFacts:
    """What is computed twice in a step, costliest first; empty where nothing is."""

    repeats: tuple[Repeat, ...]
    looks: int


@dataclass(frozen=True)
class BiasFacts:
    """Convolutions whose bias the batch normalisation behind them takes out again."""

    layers: tuple[tuple[str, Location | None], ...]  # (path in the model, the line that built it)
    count: float  # of such calls in a step
    elements: float  # of their outputs, a step
    device: str


@dataclass(frozen=True)
class PrecisionFacts:
    """How autocast and loss scaling act while training."""

    device: str
    autocast: str | None  # its number type in the forward pass
    in_backward: str | None  # its number type where backward begins
    scaled: bool  # a GradScaler was used
    at: Location | None  # the line that begins backward
    autocast_at: Location | None = None  # the `with` around that line


def settled(records: RankRecords) -> list[Json]:
    """The looks but for the first, which lies in the warm-up, where there are enough of them."""
    looks = records.of("calls")
    return looks[1:] if len(looks) > FEW_LOOKS else looks


def repeat_facts(records: RankRecords) -> RepeatFacts | None:
    """Repeated calls, or None with too few looks to tell."""
    looks = settled(records)
    if len(looks) < FEW_LOOKS:
        return None
    numbers = {whole(look.get("look")) for look in looks}
    seconds = sum(number(look.get("seconds")) for look in looks)
    pairs: dict[tuple[Location, Location], list[Json]] = {}
    for event in records.of("repeat"):
        first, again = location(event.get("first")), location(event.get("at"))
        if first is not None and again is not None and whole(event.get("look")) in numbers:
            pairs.setdefault((first, again), []).append(event)
    repeats = [
        Repeat(
            module=str(events[0].get("module") or "module"),
            first=first,
            again=again,
            share=min(1.0, _sum(events, "seconds") / seconds) if seconds > 0 else 0.0,
            seen=min(1.0, len(events) / len(looks)),
            recording=all(bool(event.get("recording")) for event in events),
        )
        for (first, again), events in pairs.items()
    ]
    return RepeatFacts(tuple(sorted(repeats, key=lambda one: -one.share)), len(looks))


def bias_facts(records: RankRecords) -> BiasFacts | None:
    """Biases before batch normalisation, or None where there are none."""
    layers = [(str(event.get("path") or ""), location(event.get("at"))) for event in records.of("biased")]
    looks = [look for look in settled(records) if number(look.get("biased")) > 0]
    if not layers or not looks:
        return None
    return BiasFacts(
        layers=tuple(dict(reversed(layers)).items())[::-1],
        count=median(number(look.get("biased")) for look in looks),
        elements=median(number(look.get("biased_elements")) for look in looks),
        device=_device(records),
    )


def precision_facts(records: RankRecords, sources: Sources) -> PrecisionFacts | None:
    """Autocast and scaling as last seen, or None where no backward was looked at."""
    settings = records.of("settings")
    if not settings:
        return None
    last = settings[-1]
    types = [look.get("autocast") for look in settled(records)]
    return PrecisionFacts(
        device=_device(records),
        autocast=next((name for name in reversed(types) if isinstance(name, str)), None),
        in_backward=_word(last.get("autocast_in_backward")),
        scaled=any(bool(event.get("scaled")) for event in settings),
        at=location(last.get("at")),
        autocast_at=_with_autocast(location(last.get("at")), sources),
    )


def _with_autocast(at: Location | None, sources: Sources) -> Location | None:
    """The `with ...autocast...` around a line, or None."""
    scope = sources.file(at.file).scope(at.line) if at is not None else None
    if at is None or scope is None:
        return None
    for node in statements(scope.body):
        if not isinstance(node, ast.With) or not node.lineno < at.line <= (node.end_lineno or 0):
            continue
        if any("autocast" in ast.unparse(item.context_expr) for item in node.items):
            return Location(at.file, node.lineno, at.function, sources.text(at.file, node.lineno))
    return None


def _device(records: RankRecords) -> str:
    settings = records.of("settings")
    return (_word(settings[-1].get("device")) if settings else None) or "cpu"


def _word(value: object) -> str | None:
    return value if isinstance(value, str) else None


def _sum(events: Iterable[Json], name: str) -> float:
    return sum(number(event.get(name)) for event in events)
