"""Finds lines that prepare batches by many small calls, one element or row at a time: SmallCallFacts."""

from __future__ import annotations

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum

from perfdoctor.facts.data.batch_stages import FEW, prepared
from perfdoctor.facts.decode import location, whole
from perfdoctor.facts.host.stacks import NO_STACKS
from perfdoctor.facts.registry import fact
from perfdoctor.facts.user_source.frames import Frame, Owner
from perfdoctor.facts.user_source.parse import COMPREHENSIONS, LOOPS, Sources, header, statements
from perfdoctor.model.measured import LoaderFacts, Location
from perfdoctor.model.missing import Missing
from perfdoctor.runs.records import RankRecords
from perfdoctor.wire.events.item_work import ItemWorkEvent

MANY = 16  # calls from one line in an item: fewer are no loop over elements
SMALL_S = 200e-6  # of a call: a larger one is work of its own, and a loop around it costs little beside it
PANDAS = re.compile(r"[/\\]pandas[/\\]core[/\\](indexing|series|frame|generic)\.py$")
# Functions of pandas that take one row, or one value of it, by the file they are in.
ROWS = {
    "indexing": {"__getitem__", "iloc", "loc", "iat", "at"},
    "series": {"__getitem__"},
    "frame": {"iterrows", "itertuples"},
    "generic": {"xs"},
}

Place = tuple[str, int]  # file, line


class Library(Enum):
    """Whose calls they are: what to write instead depends on it."""

    PANDAS = "pandas"
    NUMPY = "numpy"
    TORCH = "torch"
    TEXT = "text"  # methods of str, and regular expressions
    OTHER = "other"


@dataclass(frozen=True)
class SmallCalls:
    """A loop, or the lines of a function that access rows. `share` is of what preparing a batch costs."""

    at: Location  # the line that takes most of it
    share: float
    samples: int
    library: Library
    callee: str  # what is called most
    per_item: float | None  # how often; None where only seen and not counted


@dataclass(frozen=True)
class SmallCallFacts:
    """Places where one call could do the work of many, costliest first."""

    places: tuple[SmallCalls, ...]


@dataclass
class _Sampled:
    """The stacks that pass through one place."""

    lines: Counter[tuple[str, int, str]]  # file, line, function
    rows: bool = False  # accesses rows of a data frame


@fact
def small_calls(
    rank: RankRecords, looks: list[ItemWorkEvent], loader: LoaderFacts, sources: Sources
) -> SmallCallFacts | Missing | None:
    """Such places in the batches of the training loader, or None where there are none."""
    if not rank.stacks:
        return NO_STACKS
    counts = _counts(looks)
    places: dict[object, _Sampled] = defaultdict(lambda: _Sampled(Counter()))
    total = 0
    for frames, samples in prepared(rank, loader):
        total += samples
        key, frame, rows = _place(frames, counts, sources)
        if frame is not None:
            places[key].lines[frame.file, frame.line, frame.function] += samples
            places[key].rows = rows
    if total < FEW:
        return Missing(f"only {total} stack samples of batch preparation were taken")
    items = loader.samples / loader.batches if loader.batches else 0.0
    found = [_found(place, total, counts, sources) for place in places.values()]
    kept = [one for one in found if one is not None and _small(one, loader.batch_s / items if items else 0.0)]
    return SmallCallFacts(tuple(sorted(kept, key=lambda one: -one.share))) if kept else None


def _place(
    frames: Sequence[Frame], counts: Mapping[Place, Counter[str]], sources: Sources
) -> tuple[object, Frame | None, bool]:
    """Where a stack does its small call: its loop or function, the user's frame, and if it takes a row."""
    users = [index for index, frame in enumerate(frames) if frame.owner is Owner.USER]
    if not users:
        return None, None, False
    frame, beyond = frames[users[-1]], frames[users[-1] + 1 :]
    if beyond and _accesses_row(beyond[0]) and not _selects(frame, sources):
        return (frame.file, frame.function), frame, True
    for index in reversed(users):
        outer = frames[index]
        loop = _loop(outer, sources)
        if loop is not None and (outer.file, outer.line) in counts:
            return (outer.file, loop), outer, False
    return None, None, False


def _accesses_row(frame: Frame) -> bool:
    """Whether a library's frame takes one row, or one of its values, out of a data frame."""
    match = PANDAS.search(frame.file)
    return match is not None and frame.name in ROWS[match[1]]


def _selects(frame: Frame, sources: Sources) -> bool:
    """Whether a line compares inside the brackets: it selects rows by a condition, all in one call."""
    node = sources.file(frame.file).statement(frame.line)
    indices = (
        inner.slice
        for part in (header(node) if node is not None else ())
        for inner in ast.walk(part)
        if isinstance(inner, ast.Subscript)
    )
    return any(isinstance(inner, ast.Compare) for index in indices for inner in ast.walk(index))


def _loop(frame: Frame, sources: Sources) -> ast.AST | None:
    """The innermost loop or comprehension around a frame's line, in its function; none that yields."""
    listing = sources.file(frame.file)
    scope = listing.scope(frame.line)
    around = [
        node
        for node in statements(scope.body if scope else [])
        if isinstance(node, LOOPS) and node.lineno < frame.line <= (node.end_lineno or 0)
    ]
    node = listing.statement(frame.line)
    for part in header(node) if node is not None else ():
        around += [inner for inner in ast.walk(part) if isinstance(inner, COMPREHENSIONS)]  # type: ignore[misc]
    if not around or any(isinstance(inner, (ast.Yield, ast.YieldFrom)) for inner in ast.walk(around[-1])):
        return None
    return around[-1]


# ---------------------------------------------------------------- counts


def _counts(looks: Iterable[ItemWorkEvent]) -> dict[Place, Counter[str]]:
    """Calls in an item, by the line of the user's and what is called there, the most frequent ones alone."""
    last = {event.pid: event for event in looks}.values()
    items = sum(event.items for event in last)
    counted: dict[Place, Counter[str]] = defaultdict(Counter)
    for at, callee, calls in (entry for event in last for entry in _entries(event)):
        counted[at.file, at.line][callee] += calls
    return {
        place: Counter({callee: round(calls / items) for callee, calls in callees.items()})
        for place, callees in counted.items()
        if items and max(callees.values()) >= MANY * items
    }


def _entries(event: ItemWorkEvent) -> Iterator[tuple[Location, str, int]]:
    for entry in (*event.calls, *event.small):
        at, calls = location(entry.get("at")), whole(entry.get("calls"))
        module = f"{entry['module']}." if isinstance(entry.get("module"), str) else ""
        if at is not None and calls:
            yield at, f"{module}{entry.get('callee')}", calls


def _found(
    place: _Sampled, total: int, counts: Mapping[Place, Counter[str]], sources: Sources
) -> SmallCalls | None:
    (file, line, function), _ = place.lines.most_common(1)[0]
    callees = sum((counts.get((one, number), Counter()) for one, number, _ in place.lines), Counter())
    callee, calls = callees.most_common(1)[0] if callees else ("", 0)
    return SmallCalls(
        at=Location(file, line, function, sources.text(file, line)),
        share=place.lines.total() / total,
        samples=place.lines.total(),
        library=Library.PANDAS if place.rows else _library(callee),
        callee="" if place.rows else _written(callee),
        per_item=calls or None,
    )


def _small(one: SmallCalls, item_s: float) -> bool:
    """Whether its calls are small; rows are taken one at a time by whoever takes a row."""
    if one.library is Library.PANDAS and not one.per_item:
        return True
    return one.per_item is not None and one.share * item_s / one.per_item <= SMALL_S


def _library(callee: str) -> Library:
    package = callee.partition(".")[0]
    if package in {"pandas", "numpy", "torch"}:
        return Library(package)
    return Library.TEXT if callee.startswith(("builtins.str.", "re.")) else Library.OTHER


def _written(callee: str) -> str:
    """What is called, as scripts write it: a method by its class, the rest by its package."""
    words = callee.removeprefix("builtins.").removeprefix("__main__.").split(".")
    if len(words) < 3:
        return ".".join(words)
    if "Tensor" in words[-2]:  # torch's methods are those of a class below Tensor
        return f"Tensor.{words[-1]}"
    is_class = words[-2][:1].isupper() or words[-2] == "ndarray"
    return f"{words[-2] if is_class else words[0]}.{words[-1]}"
