"""Measures how much of a batch is padding, and finds the lines that pad: PaddingFacts."""

from __future__ import annotations

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Collection, Iterator, Sequence

from perfdoctor.facts.data.collators import PADDING, Collator, collator_of, idle, is_below_zero, rounded_to
from perfdoctor.facts.data.training_loader import trained_on
from perfdoctor.facts.decode import as_count
from perfdoctor.facts.registry import fact
from perfdoctor.facts.script.model_and_optimizers import files_of
from perfdoctor.facts.steps.span import MeasuredSpan
from perfdoctor.facts.user_source.growing_names import written
from perfdoctor.facts.user_source.parse import Listing, Sources, calls, names_in, statements
from perfdoctor.facts.user_source.project import project_files
from perfdoctor.model.batch import BatchFacts
from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.measured import LoaderFacts, Location
from perfdoctor.model.missing import Missing
from perfdoctor.runs.types import RankRecords
from perfdoctor.wire.events.loaders import LoaderEvent, PaddingEvent
from perfdoctor.wire.events.training import BatchLayoutEvent

MODELS = 0  # how the probe numbers what models are called with
ROWS = 16  # read: fewer may be alike by chance
# What tells padding from labels, counts and columns of tables that happen to end in one value: a text hardly
# ever holds the value itself, is made of several others, and not every second one is of the same length.
INSIDE, KINDS, ALIKE = 0.05, 4, 0.5

TIME_FIRST = Missing("batches hold time in their first dimension, and padding was looked for in the second")

CALLS = frozenset(("pad_sequence", "pad", *PADDING))
# What collators round lengths up to. By chance, one length in so many is such a multiple: two different ones
# and no other have been rounded.
MULTIPLES = (256, 128, 64, 32, 16, 8)
FILLS = frozenset(("full", "full_like", "new_full", "fill_"))
ALLOCATES = frozenset("zeros ones full empty new_zeros new_ones new_full new_empty".split())
NAMED = re.compile(r"(^|_)pad(_|$|ding|ded)", re.IGNORECASE)


@dataclass(frozen=True)
class PaddingFacts:
    """How far sequences are padded, in the batches that were read. Shares are of all their positions."""

    batches: int
    width: float  # positions of a row, in the mean
    longest: float  # of the longest sequence of a batch
    mean: float  # of a sequence
    beyond: float  # share that lies beyond the longest sequence of its batch
    within: float  # share that is padding, but not beyond it
    is_fixed: bool = False  # all batches are equally wide, while their longest sequences differ
    multiple: int = 1  # that a batch's longest sequence is rounded up to
    collator: Collator = Collator()  # that pads all that such a batch holds
    lines: tuple[Location, ...] = ()  # whose text pads
    at: Location | None = None  # the line that builds the loader

    @property
    def share(self) -> float:
        """The share that is padding."""
        return self.beyond + self.within


@dataclass(frozen=True)
class _Rows:
    """The rows of one tensor of a batch, and how long the sequences in them are."""

    place: int | None
    width: int
    lengths: Sequence[int]

    @property
    def positions(self) -> int:
        return self.width * len(self.lengths)

    @property
    def padding(self) -> int:
        return self.positions - sum(self.lengths)


@fact
def padding_facts(
    rank: RankRecords,
    span: MeasuredSpan,
    loader: LoaderFacts | Missing | None,
    batch: BatchFacts | Missing | None,
    sources: Sources,
) -> PaddingFacts | Missing | None:
    """Of the training loader's batches, else of what models are called with; None where nothing is padded."""
    samples = [event for event in rank.of(PaddingEvent) if _is_whole(event)]
    origin = trained_on(rank, span)
    if not any(event.loader in origin for event in samples):
        origin = frozenset((MODELS,))
    looks = [event for event in samples if event.loader in origin]
    tensors = list(_sequences(looks))
    positions = sum(rows.positions for rows in tensors)
    padding = sum(rows.padding for rows in tensors)
    if not padding:
        return None
    if any(event.dimension for event in rank.of(BatchLayoutEvent)):
        return TIME_FIRST
    files = _files(rank, loader, batch, sources)
    multiple = _multiple(tensors, rounded_to(files, sources))
    count = sum(len(rows.lengths) for rows in tensors)
    longest = sum(max(rows.lengths) * len(rows.lengths) for rows in tensors)
    return PaddingFacts(
        batches=len(tensors),
        width=positions / count,
        longest=longest / count,
        mean=(positions - padding) / count,
        beyond=1 - longest / positions,
        within=(longest - positions + padding) / positions,
        is_fixed=multiple == 1 and _are_fixed(tensors),
        multiple=multiple,
        collator=collator_of(looks, files, sources),
        lines=tuple(_lines(files, sources, idle(rank.of(LoaderEvent)))),
        at=loader.at if isinstance(loader, LoaderFacts) else None,
    )


def _are_fixed(tensors: Sequence[_Rows]) -> bool:
    """Whether all batches are padded to one width, which is then not that of their longest sequences."""
    places: dict[int | None, list[_Rows]] = defaultdict(list)
    for rows in tensors:
        places[rows.place].append(rows)
    same_widths = all(len({one.width for one in rows}) == 1 for rows in places.values())
    return same_widths and any(len({max(one.lengths) for one in rows}) > 1 for rows in places.values())


def _multiple(tensors: Sequence[_Rows], asked: int) -> int:
    """What the longest sequence of each batch is rounded up to; 1 where rows are wider than that.

    Rows of one width that is such a multiple may be of a fixed length as well: then only the script tells.
    """
    pairs = {(rows.width, max(rows.lengths)) for rows in tensors}
    places: dict[int | None, set[int]] = defaultdict(set)
    for rows in tensors:
        places[rows.place].add(rows.width)
    differ = any(len(widths) > 1 for widths in places.values())
    for multiple in MULTIPLES if differ else (asked,):
        if multiple > 1 and all(width == -(-longest // multiple) * multiple for width, longest in pairs):
            return multiple
    return 1


def _is_whole(event: PaddingEvent) -> bool:
    """Whether an event holds what the probe writes."""
    width, lengths = event.width, event.lengths
    if not width or not lengths or event.loader is None:
        return False
    return all(as_count(length) is not None and length <= width for length in lengths)


def _sequences(samples: Sequence[PaddingEvent]) -> Iterator[_Rows]:
    """What was seen of the tensors that hold padded sequences."""
    places: dict[object, list[PaddingEvent]] = defaultdict(list)
    for event in samples:
        places[event.place].append(event)
    for events in _without_targets(places.values()):
        padding: Counter[tuple[object, object]] = Counter()
        for event in events:
            padding[_fill(event)] += _Rows(event.place, event.width, event.lengths).padding
        fill = padding.most_common(1)[0][0]
        if _is_padding([event for event in events if _fill(event) == fill]):
            for event in events:
                unpadded = [event.width] * len(event.lengths)
                yield _Rows(event.place, event.width, event.lengths if _fill(event) == fill else unpadded)


def _without_targets(places: Collection[list[PaddingEvent]]) -> list[list[PaddingEvent]]:
    """What models compute on: no table is looked up at a number below zero, which marks what losses ignore.

    Where there is nothing else of that width, targets tell how long the rows beside them are.
    """
    widths = {event.width for events in places for event in events if not is_below_zero(event)}
    return [
        events
        for events in places
        if not all(is_below_zero(event) and event.width in widths for event in events)
    ]


def _fill(event: PaddingEvent) -> tuple[object, object]:
    return event.fill, event.leading


def _is_padding(events: Sequence[PaddingEvent]) -> bool:
    """Whether what rows are filled with is padding: a mask says so, or all the rest does."""
    lengths = [length for event in events for length in event.lengths]
    if len(lengths) < ROWS:
        return False
    if all(event.masked for event in events):
        return True
    shorter = Counter(length for event in events for length in event.lengths if length < event.width)
    inside = sum(event.inside for event in events)
    return (
        inside <= INSIDE * sum(lengths)
        and max(event.kinds for event in events) >= KINDS
        and max(shorter.values(), default=0) <= ALIKE * shorter.total()
    )


# ---------------------------------------------------------------- the lines that pad


def _files(
    rank: RankRecords,
    loader: LoaderFacts | Missing | None,
    batch: BatchFacts | Missing | None,
    sources: Sources,
) -> list[str]:
    """Files in which batches are prepared, then those in which models are, then what they import."""
    files = [loader.at.file] if isinstance(loader, LoaderFacts) and loader.at else []
    if isinstance(batch, BatchFacts):
        files += [line.at.file for cost in batch.costs for line in cost.lines]
    return project_files((*files, *files_of(rank)), sources)


def _lines(files: Sequence[str], sources: Sources, unused: Collection[str]) -> Iterator[Location]:
    """The lines that pad, without those that make collators which are `unused`."""
    for file in files:
        listing = sources.file(file)
        nodes = ast.walk(listing.tree) if listing.tree is not None else ()
        found: set[int] = set()
        for node in nodes:
            pads = isinstance(node, (ast.expr, ast.stmt)) and _pads(node, unused)
            made = _allocated(listing, node) if isinstance(node, ast.Subscript) and _fills(node) else None
            found |= {node.lineno} if pads else set()  # type: ignore[attr-defined]
            found |= {node.lineno, made} if made is not None else set()  # type: ignore[attr-defined]
        for line in sorted(found):
            yield sources.at(file, line)


def _fills(node: ast.Subscript) -> bool:
    """Whether it fills the beginning of a row."""
    begins = (each for each in ast.walk(node.slice) if isinstance(each, ast.Slice) and each.lower is None)
    return isinstance(node.ctx, ast.Store) and any(each.upper is not None for each in begins)


def _allocated(listing: Listing, node: ast.Subscript) -> int | None:
    """The line that makes the rows whose beginnings another fills: `rows = torch.zeros(n, width)`."""
    filled, scope = written(node), listing.scope(node.lineno)
    before = [
        each for each in (statements(scope.body) if scope is not None else ()) if each.lineno < node.lineno
    ]
    looped = (each for each in before if isinstance(each, ast.For))
    filled = next((of for each in looped if (of := _part_of(each, filled)) is not None), filled)
    made = (
        statement.lineno
        for statement in before
        if isinstance(statement, ast.Assign)
        and filled in map(written, statement.targets)
        and any(name in ALLOCATES for _, name in calls(statement))
    )
    return max(made, default=None)


def _part_of(loop: ast.For, name: str | None) -> str | None:
    """What a name of a loop is a part of: `rows` of `row` in `for i, row in enumerate(rows)`."""
    given, target = loop.iter, loop.target
    if isinstance(given, ast.Call) and isinstance(given.func, ast.Name) and isinstance(target, ast.Tuple):
        several = {"zip": given.args, "enumerate": [given.func, *given.args]}.get(given.func.id, [])
        pairs = list(zip(target.elts, several, strict=False))
    else:
        pairs = [(target, given)]
    return next((written(of) for each, of in pairs if written(each) == name), None)


def _pads(node: ast.AST, unused: Collection[str]) -> bool:
    """Whether a piece of text pads: asks for it, repeats what fills a row, or fills a row's beginning."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult):
        sides = (node.left, node.right)
        return any(isinstance(side, ast.List) for side in sides) and any(
            _names_padding(side) or _is_missing(side) for side in sides
        )
    if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store):
        ends = (inner.upper for inner in ast.walk(node.slice) if isinstance(inner, ast.Slice))
        return any(end is not None and "len" in names_in(end) for end in ends)
    return isinstance(node, ast.Call) and _calls_for_padding(node, unused)


def _calls_for_padding(call: ast.Call, unused: Collection[str]) -> bool:
    name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", None)
    asked = any(
        word.arg == "padding"
        and isinstance(word.value, ast.Constant)
        and (word.value.value is True or word.value.value in ("max_length", "longest"))
        for word in call.keywords
    )
    return (
        (name in CALLS and name not in unused)
        or asked
        or (name in FILLS and any(map(_names_padding, call.args)))
    )


def _is_missing(node: ast.AST) -> bool:
    """Whether a number is what a sequence lacks of a length."""
    differences = (inner for inner in ast.walk(node) if isinstance(inner, ast.BinOp))
    return any(isinstance(inner.op, ast.Sub) and "len" in names_in(inner) for inner in differences)


def _names_padding(node: ast.AST) -> bool:
    return any(NAMED.search(name) for name in names_in(node))
