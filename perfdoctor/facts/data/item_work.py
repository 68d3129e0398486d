"""Finds work that a dataset's code does again for every item, with the same result: RepeatedWorkFacts."""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import field
from enum import Enum
from typing import Any

from perfdoctor.facts.data.batch_stages import FEW, prepared, too_few
from perfdoctor.facts.data.compared_calls import AGAIN, Calls, Place, at_frame, compared
from perfdoctor.facts.decode import as_count, location
from perfdoctor.facts.host.stacks import NO_STACKS
from perfdoctor.facts.registry import fact
from perfdoctor.facts.user_source.frames import Frame, Owner
from perfdoctor.facts.user_source.loop_statements import unit_of
from perfdoctor.facts.user_source.parse import (
    COMPREHENSIONS,
    LOOPS,
    Function,
    Sources,
    covers,
    header,
    statements,
)
from perfdoctor.model.batch import WAITED_FOR
from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.measured import LoaderFacts, Location, StepFacts
from perfdoctor.model.missing import Missing
from perfdoctor.runs.types import RankRecords
from perfdoctor.wire.events.item_work import ItemWorkEvent

NOT_SEEN = Missing("no items could be looked at while they were prepared")
SEEN = 6  # ends of a function: fewer may be alike by chance
OF_ITEMS = 0.5  # of the dataset's items; in_all is a guess

# Their targets hand on what is iterated over or entered: that it ends the same is no work's result.
BINDERS = (*LOOPS, ast.With, ast.AsyncWith)
# Calls that open what their arguments name: with the same ones, they open the same again.
OPENERS = frozenset(("open", "connect", "File", "ZipFile", "TarFile", "Environment", "memmap"))


class How(Enum):
    """In what way work was seen to be repeated."""

    CALL = "call"  # a function was called with the same arguments, and gave the same
    VALUE = "value"  # a name was set to the same value, from the same values
    FILE = "file"  # the same file was opened


@dataclass(frozen=True)
class RepeatedWork:
    """One line whose work has the same result again and again. `share` is of what preparing a batch costs."""

    at: Location
    share: float
    samples: int
    name: str  # what is called, or the name that is set
    how: How
    seen: int  # calls, or ends of the function, that were compared
    arguments: int = 1  # different ones that it was seen to be called with
    in_all: int | None = None  # how many there are, as far as can be told by those that came again


@dataclass(frozen=True)
class RepeatedWorkFacts:
    """What could be done once instead of for each item, costliest first."""

    work: tuple[RepeatedWork, ...]

    @property
    def share(self) -> float:
        """The share of preparing a batch that goes into it."""
        return min(1.0, sum(one.share for one in self.work))


@fact
def repeated_work(
    rank: RankRecords, looks: list[ItemWorkEvent], step: StepFacts, loader: LoaderFacts, sources: Sources
) -> RepeatedWorkFacts | Missing | None:
    """Such work in the batches of the training loader, or None where there is none."""
    if not looks:
        return NOT_SEEN
    if not rank.stacks:
        return NO_STACKS
    last = {event.pid: event for event in looks}.values()
    calls = _repeated_calls(last, loader)
    values = _repeated_values(_functions(entry for event in last for entry in event.functions), sources)
    hits: Counter[_Known] = Counter()
    total = 0
    for frames, count in prepared(rank, loader, sources):
        total += count
        known = _known(frames, calls, values)
        if known is not None:
            hits[known] += count
    if total < FEW:
        return too_few(total, step.data_stall >= WAITED_FOR)
    work = [
        RepeatedWork(
            at=sources.at(*known.place, known.function),
            share=known.again * count / total,
            samples=count,
            name=known.name,
            how=known.how,
            seen=known.seen,
            arguments=known.arguments,
            in_all=known.in_all,
        )
        for known, count in hits.items()
    ]
    return RepeatedWorkFacts(tuple(sorted(work, key=lambda one: -one.share))) if work else None


@dataclass(frozen=True)
class _Known:
    """A place where work is repeated."""

    place: Place
    function: str
    name: str
    how: How
    seen: int
    again: float = 1.0  # share of the times that repeat an earlier one
    arguments: int = 1
    in_all: int | None = None


def _known(
    frames: Sequence[Frame],
    calls: dict[Calls, _Known],
    values: dict[tuple[Place, str], _Known],
) -> _Known | None:
    """The outermost frame of a stack at which repeated work is done."""
    for index, frame in enumerate(frames):
        if frame.owner is not Owner.USER:
            continue
        place = frame.file, frame.line
        if (place, frame.name) in values:
            return values[place, frame.name]
        called = at_frame(frames, index)
        if called in calls:
            return calls[called]
    return None


# ---------------------------------------------------------------- calls


def _repeated_calls(looks: Iterable[ItemWorkEvent], loader: LoaderFacts) -> dict[Calls, _Known]:
    """Calls that repeat earlier ones, by their line and the function's own name."""
    items = loader.samples / max(1, loader.num_workers)  # that a process prepares while it lives
    if loader.num_workers and not loader.persistent_workers:
        items /= max(1, loader.epochs)
    known = {}
    for key, calls in compared((event.items, event.calls) for event in looks).items():
        again, in_all = calls.again(items)
        # One for each item: the items themselves came again, which is not this fact's affair.
        of_items = in_all is not None and loader.items is not None and in_all >= OF_ITEMS * loader.items
        if again >= AGAIN and not of_items:
            known[key] = _Known(
                place=key[0],
                function=calls.at.function or "",
                name=calls.name,
                how=How.CALL,
                seen=calls.compared,
                again=again,
                arguments=calls.arguments,
                in_all=in_all,
            )
    return known


# ---------------------------------------------------------------- values


@dataclass
class _Ended:
    """What a function's locals held at its ends."""

    at: Location
    ends: int = 0
    same: dict[str, object] = field(default_factory=dict)
    plain: set[str] = field(default_factory=set)  # held numbers, which calls made for their effects give, too

    def add(self, entry: dict[str, Any]) -> None:
        """Another process's."""
        same = entry.get("same")
        now = same if isinstance(same, dict) else {}
        before = self.same if self.ends else now
        self.same = {name: value for name, value in now.items() if before.get(name) == value}
        plain = entry.get("plain")
        self.plain.update(
            name for name in (plain if isinstance(plain, list) else ()) if isinstance(name, str)
        )
        self.ends += as_count(entry.get("ends")) or 0


def _functions(entries: Iterable[dict[str, Any]]) -> list[_Ended]:
    """The user's functions that were seen to end."""
    found: dict[tuple[Place, str | None], _Ended] = {}
    for entry in entries:
        at = location(entry.get("at"))
        if at is not None and as_count(entry.get("ends")):
            found.setdefault(((at.file, at.line), at.function), _Ended(at)).add(entry)
    return [ended for ended in found.values() if ended.ends >= SEEN]


def _repeated_values(functions: Iterable[_Ended], sources: Sources) -> dict[tuple[Place, str], _Known]:
    """Statements that set names to the same values each time, from the same values, by their lines."""
    found: dict[tuple[Place, str], _Known] = {}
    for ended in functions:
        node = sources.file(ended.at.file).beginning(ended.at.line, ended.at.function or "")
        if node is None:
            continue
        for statement, how, name in _constant(node, set(ended.same), ended.plain):
            if how is How.VALUE and name in ended.plain:
                continue
            known = _Known((ended.at.file, statement.lineno), node.name, name, how, seen=ended.ends)
            for line in range(statement.lineno, (statement.end_lineno or statement.lineno) + 1):
                if covers(statement, line):
                    found[(ended.at.file, line), node.name] = known
    return found


def _constant(
    function: ast.FunctionDef | ast.AsyncFunctionDef, same: set[str], plain: set[str]
) -> Iterator[tuple[ast.stmt, How, str]]:
    """The statements that do the same each time: `same` are the locals that held the same at every end.

    They use no other local, and either set nothing else, nor does another statement of their line, or open a
    file. A name that another statement sets as well, from something that varies, is not the same on its way.
    Named is one that is not `plain`.
    """
    repeated = [(node, *_names(node)) for node in _each_time(function)]
    arguments = {inner.arg for inner in ast.walk(function.args) if isinstance(inner, ast.arg)}
    local = arguments.union(*(sets for _, sets, _ in repeated)) - {"self", "cls"}
    settled = False
    while not settled:
        constant = [
            (node, sets) for node, sets, needs in repeated if sets and sets <= same and needs & local <= same
        ]
        nodes = {id(node) for node, _ in constant}
        spoilt = {name for node, sets, _ in repeated if id(node) not in nodes for name in sets} & same
        settled = not spoilt
        same = same - spoilt
    varied = [node for node, sets, _ in repeated if sets and id(node) not in nodes]
    for node, sets in constant:
        alone = not any(covers(other, node.lineno) for other in varied)  # the line does nothing else
        if alone and not isinstance(node, BINDERS):
            yield node, How.VALUE, min(sets, key=lambda name: (name in plain, name))
    for node, _, _ in repeated:
        opener = _opener(node, local - same) if id(node) not in nodes or isinstance(node, BINDERS) else None
        if opener:
            yield node, How.FILE, opener


def _opener(node: ast.stmt, varying: set[str]) -> str | None:
    """What a statement calls to open a file that is the same each time; None where it opens none."""
    for call in (inner for part in header(node) for inner in ast.walk(part) if isinstance(inner, ast.Call)):
        name = call.func.attr if isinstance(call.func, ast.Attribute) else getattr(call.func, "id", "")
        if name in OPENERS and call.args and not _needs(call) & varying:
            return ast.unparse(call.func)
    return None


def _needs(node: ast.expr) -> set[str]:
    """The names that an expression uses."""
    return set(unit_of(ast.Expr(node, lineno=node.lineno, end_lineno=node.end_lineno)).needs)


def _each_time(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[ast.stmt]:
    """The statements that run each time; of a function that yields, those of the loop that does."""
    every = [
        node for node in statements(function.body) if not isinstance(node, (*Function.__args__, ast.ClassDef))
    ]
    if not any(_yields(node) for node in every):
        return iter(every)
    loops = [node for node in every if isinstance(node, LOOPS) and _yields(node)]
    return (node for node in (statements(loops[-1].body) if loops else ()))


def _yields(node: ast.AST) -> bool:
    return any(isinstance(inner, (ast.Yield, ast.YieldFrom)) for inner in ast.walk(node))


def _names(node: ast.stmt) -> tuple[frozenset[str], frozenset[str]]:
    """The names that a statement sets or changes, and those it needs, without those of its comprehensions."""
    unit = unit_of(node)
    own = {
        name.id
        for part in header(node)
        for inner in ast.walk(part)
        if isinstance(inner, COMPREHENSIONS)
        for generator in inner.generators
        for name in ast.walk(generator.target)
        if isinstance(name, ast.Name)
    }
    return (unit.sets | unit.changes) - own, unit.needs - own
