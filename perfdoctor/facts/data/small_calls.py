"""Finds lines that prepare batches by many small calls, one element or row at a time: SmallCallFacts."""

from __future__ import annotations

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from enum import Enum

from perfdoctor.facts.data.batch_stages import FEW, prepared
from perfdoctor.facts.decode import as_count, location
from perfdoctor.facts.host.sampled_shares import share_of
from perfdoctor.facts.host.stacks import NO_STACKS, StackLines, threads
from perfdoctor.facts.registry import fact
from perfdoctor.facts.user_source.frames import Frame, Owner
from perfdoctor.facts.user_source.number_reads import reading_lines
from perfdoctor.facts.user_source.parse import COMPREHENSIONS, LOOPS, Sources, header, statements
from perfdoctor.facts.user_source.whole_tensors import on_whole_tensors
from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.measured import LoaderFacts, Location, Phase, RunFacts, StepFacts
from perfdoctor.model.missing import Missing
from perfdoctor.runs.types import RankRecords
from perfdoctor.wire.events.item_work import ItemWorkEvent

KINDS = frozenset(
    (None, "data", "drawn", "compute")
)  # of lines in the training loop: not those that log or save
MANY = 16  # calls from one line in an item: fewer are no loop over elements
MOSTLY = 0.8  # of the samples of a line, in one loop: others may be torn
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
    """A loop, or the lines of a function that access rows. `share` is of the batch, or of the step."""

    at: Location  # the line that takes most of it
    share: float
    samples: int
    library: Library
    callee: str  # what is called most
    per_item: float | None  # how often; None where only seen and not counted
    in_step: bool = False  # in the training loop, not where batches are prepared
    kind: str | None = None  # what its time in the loop is charged by, as in LineCost
    loop: int | None = None  # the line of the loop that reads tensors number by number
    whole: str | None = None  # the same on whole tensors, where that can be written
    spares: tuple[Location, ...] = ()  # lines whose time all lies in that loop


@dataclass(frozen=True)
class SmallCallFacts:
    """Places where one call could do the work of many, costliest first."""

    places: tuple[SmallCalls, ...]
    batch_s: float  # what preparing a batch costs; 0 where no loader prepares any


@dataclass
class _Sampled:
    """The stacks that pass through one place."""

    lines: Counter[tuple[str, int, str]]  # file, line, function
    rows: bool = False  # accesses rows of a data frame
    kinds: Counter[str | None] = field(default_factory=Counter)
    through: Counter[Place] = field(default_factory=Counter)  # the user's lines that lead to it, with its own
    loop: ast.AST | None = None


@fact
def small_calls(
    rank: RankRecords,
    looks: list[ItemWorkEvent],
    run: RunFacts,
    step: StepFacts,
    loader: LoaderFacts | Missing | None,
    sources: Sources,
) -> SmallCallFacts | Missing | None:
    """Such places in the batches of the training loader and in the training loop, or None."""
    if not rank.stacks:
        return NO_STACKS
    places = list(_in_step(rank, step, run.device == "cpu", sources))
    if isinstance(loader, LoaderFacts):
        places += _in_batch(rank, looks, loader, sources)
    batch_s = loader.batch_s if isinstance(loader, LoaderFacts) else 0.0
    return SmallCallFacts(tuple(sorted(places, key=lambda one: -one.share)), batch_s) if places else None


def _in_batch(
    rank: RankRecords, looks: Sequence[ItemWorkEvent], loader: LoaderFacts, sources: Sources
) -> Iterator[SmallCalls]:
    """Places in the preparing of batches: loops whose calls were counted, and rows of data frames."""
    counts = _counts(looks)
    places: dict[object, _Sampled] = defaultdict(lambda: _Sampled(Counter()))
    total = 0
    for frames, samples in prepared(rank, loader, sources):
        total += samples
        key, frame, rows = _place(frames, counts, sources)
        if frame is not None:
            places[key].lines[frame.file, frame.line, frame.function] += samples
            places[key].rows = rows
    items = loader.samples / loader.batches if loader.batches else 0.0
    item_s = loader.batch_s / items if items else 0.0
    found = (_found(place, total, counts, sources) for place in places.values())
    return (one for one in found if total >= FEW and _small(one, item_s))


def _in_step(rank: RankRecords, step: StepFacts, on_cpu: bool, sources: Sources) -> Iterator[SmallCalls]:
    """Places in the training loop: rows of data frames; without a device also loops that read tensors.

    Nothing is counted there. What reads a tensor of a device waits for its work, which is another matter.
    """
    main = [(frames, count) for label, frames, count in threads(rank) if label == "main"]
    lines = StackLines(main, rank, sources, step)
    places: dict[object, _Sampled] = defaultdict(lambda: _Sampled(Counter()))
    passed: Counter[Place] = Counter()
    other = total = 0
    for frames, samples in main:
        phase, (frame, _, kind) = lines.cost(frames)
        total += samples if phase is not None else 0
        if phase is not Phase.OTHER:
            continue
        other += samples
        users = [index for index, one in enumerate(frames) if one.owner is Owner.USER]
        through = {(frames[index].file, frames[index].line): samples for index in users}
        passed.update(through)
        beyond = frames[users[-1] + 1 :]
        if kind not in KINDS:
            continue
        rows = bool(beyond) and _accesses_row(beyond[0]) and not _selects(frame, sources)
        loop = _reading_loop(frame, lines, sources) if on_cpu and not rows else None
        if rows or loop is not None:
            key = (frame.file, frame.function if rows else loop)
            places[key].loop = loop
            places[key].through.update(through)
            places[key].lines[frame.file, frame.line, frame.function] += samples
            places[key].rows = rows
            places[key].kinds[kind] += samples
    share = share_of(step, Phase.OTHER, other, total)
    for place in places.values():
        found = _found(place, other, {}, sources)
        name, library = ("", Library.PANDAS) if place.rows else ("Tensor.item", Library.TORCH)
        kind = place.kinds.most_common(1)[0][0]
        yield replace(
            _of_loop(place, found, passed, sources),
            share=share * found.share,
            callee=name,
            library=library,
            in_step=True,
            kind=kind,
        )


def _of_loop(place: _Sampled, found: SmallCalls, passed: Counter[Place], sources: Sources) -> SmallCalls:
    """A place with what is known of a loop that reads tensors."""
    if place.loop is None:
        return found
    spared = (one for one, count in place.through.items() if count >= MOSTLY * passed[one])
    return replace(
        found,
        loop=getattr(place.loop, "lineno", None),
        whole=on_whole_tensors(place.loop),
        spares=tuple(sources.at(*one) for one in spared),
    )


def _reading_loop(frame: Frame, lines: StackLines, sources: Sources) -> ast.AST | None:
    """The loop that a frame's line is in where that line reads tensors, or handles what is read."""
    loop = _inner_loop(frame, lines, sources)
    if loop is None or frame.line not in reading_lines(loop, frame.line, sources.file(frame.file)):
        return None
    return loop


def _inner_loop(frame: Frame, lines: StackLines, sources: Sources) -> ast.AST | None:
    """The loop around a frame's line, or at it, that is not the one that trains."""
    loop = _loop(frame, sources, at_it=True)
    trains = lines.anchors.get((frame.file, frame.name), set())
    first, last = getattr(loop, "lineno", 0), getattr(loop, "end_lineno", 0)
    return None if any(first <= line <= last for line in trains) else loop


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
        counted = (outer.file, outer.line) in counts
        if counted and (loop := _loop(outer, sources)) is not None:
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


def _loop(frame: Frame, sources: Sources, at_it: bool = False) -> ast.AST | None:
    """The innermost loop or comprehension around a frame's line, in its function; none that yields.

    `at_it`: a loop that begins there as well, which takes the next element.
    """
    listing = sources.file(frame.file)
    scope = listing.scope(frame.line)
    around = [
        node
        for node in statements(scope.body if scope else [])
        if isinstance(node, LOOPS) and node.lineno - at_it < frame.line <= (node.end_lineno or 0)
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
    for at, callee, often in (entry for event in last for entry in _entries(event)):
        counted[at.file, at.line][callee] += often
    return {
        place: Counter({callee: round(often / items) for callee, often in callees.items()})
        for place, callees in counted.items()
        if items and max(callees.values()) >= MANY * items
    }


def _entries(event: ItemWorkEvent) -> Iterator[tuple[Location, str, int]]:
    for entry in (*event.calls, *event.small):
        at, often = location(entry.get("at")), as_count(entry.get("calls"))
        module = f"{entry['module']}." if isinstance(entry.get("module"), str) else ""
        if at is not None and often:
            yield at, f"{module}{entry.get('callee')}", often


def _found(place: _Sampled, total: int, counts: Mapping[Place, Counter[str]], sources: Sources) -> SmallCalls:
    (file, line, function), _ = place.lines.most_common(1)[0]
    callees = sum((counts.get((one, number), Counter()) for one, number, _ in place.lines), Counter())
    callee, often = callees.most_common(1)[0] if callees else ("", 0)
    return SmallCalls(
        at=sources.at(file, line, function),
        share=place.lines.total() / total,
        samples=place.lines.total(),
        library=Library.PANDAS if place.rows else _library(callee),
        callee="" if place.rows else _written(callee),
        per_item=often or None,
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
