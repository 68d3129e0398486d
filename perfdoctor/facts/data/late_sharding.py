"""Finds loops in which each loader worker prepares all samples and keeps its share: LateShardingFacts."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache

from perfdoctor.facts.data.batch_stages import FEW, prepared, too_few
from perfdoctor.facts.host.stacks import NO_STACKS
from perfdoctor.facts.registry import fact
from perfdoctor.facts.user_source.frames import Owner
from perfdoctor.facts.user_source.origins import called_name
from perfdoctor.facts.user_source.parse import Listing, Sources, names_in, statements
from perfdoctor.model.batch import WAITED_FOR
from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.measured import LoaderFacts, Location, StepFacts
from perfdoctor.model.missing import Missing
from perfdoctor.runs.types import RankRecords

ASKED = "get_worker_info"
WORKER = re.compile(r"(^|_)workers?(_|$|id)", re.IGNORECASE)  # names that hold a worker's number, or how many


@dataclass(frozen=True)
class LateShardingFacts:
    """What workers do for samples that they then leave to each other."""

    at: Location  # where all samples are gone through
    filter: Location  # where a worker tells its own; the same line where one call does both
    share: float  # of the cost of a batch, inside this loop and before that
    samples: int
    workers: int


@dataclass(frozen=True)
class SharingLoop:
    """Lines that run for the samples of all workers."""

    first: int
    last: int
    filter: int


@fact
def late_sharding_facts(
    rank: RankRecords, step: StepFacts, loader: LoaderFacts, sources: Sources
) -> LateShardingFacts | Missing | None:
    """The costliest such loop of an iterable dataset with workers, or None where there is none."""
    if not loader.iterable or loader.num_workers < 2:
        return None
    if not rank.stacks:
        return NO_STACKS
    seen: dict[tuple[str, SharingLoop], int] = {}
    total, loops = 0, cache(lambda file: sharing_loops(sources.file(file)))
    for inner, count in prepared(rank, loader):
        total += count
        passed = (
            (frame.file, loop)
            for frame in inner
            if frame.owner is Owner.USER
            for loop in loops(frame.file)
            if loop.first <= frame.line <= loop.last
        )
        outermost = next(passed, None)
        if outermost is not None:
            seen[outermost] = seen.get(outermost, 0) + count
    if total < FEW:
        return too_few(total, step.data_stall >= WAITED_FOR)
    if not seen:
        return None
    (file, loop), samples = max(seen.items(), key=lambda one: one[1])
    first, last = (Location(file, line, None, sources.text(file, line)) for line in (loop.first, loop.filter))
    return LateShardingFacts(first, last, samples / total, samples, loader.num_workers)


def sharing_loops(listing: Listing) -> tuple[SharingLoop, ...]:
    """The loops of a file that go through the samples of all workers and keep those of one."""
    return tuple(loop for scope in listing.scopes for loop in _of_function(scope))


def _of_function(function: ast.FunctionDef | ast.AsyncFunctionDef) -> Iterator[SharingLoop]:
    own = list(statements(function.body))
    tells = _Workers(own)
    for node in own:
        call = _islice(node)
        if call is not None and any(map(tells, call.args[1:])):
            yield SharingLoop(call.lineno, call.end_lineno or call.lineno, call.lineno)
        if isinstance(node, ast.For):
            chosen = next(
                (each for each in node.body if isinstance(each, ast.If) and _chooses(each, tells)), None
            )
            if chosen is not None:  # on a line with the choice may be what is done for the worker's own
                last = min(chosen.test.end_lineno or chosen.lineno, chosen.body[0].lineno - 1)
                yield SharingLoop(node.iter.lineno, max(last, node.iter.lineno), chosen.test.lineno)


class _Workers:
    """What tells a worker's number in one function: the names that hold it, and what is named so."""

    def __init__(self, own: list[ast.stmt]) -> None:
        self.held: set[str] = {ASKED}
        before = 0
        while before < len(self.held):
            before = len(self.held)
            for node in own:
                if isinstance(node, ast.Assign) and _is_told(node.value) and self(node.value):
                    self.held |= {name for target in node.targets for name in _stored(target)}

    def __call__(self, node: ast.AST) -> bool:
        names = names_in(node)
        return bool(names & self.held) or any(map(WORKER.search, names))


def _is_told(value: ast.expr) -> bool:
    """Whether a value is a worker's number or their count as it was told: nothing is reckoned from them."""
    return not any(
        isinstance(inner, ast.BinOp)
        or (isinstance(inner, ast.Call) and called_name(inner) not in {ASKED, "getattr", "int", "max"})
        for inner in ast.walk(value)
    )


def _stored(target: ast.expr) -> Iterator[str]:
    """The names that are set: of an attribute the last one."""
    for inner in ast.walk(target):
        if isinstance(inner, ast.Name | ast.Attribute) and isinstance(inner.ctx, ast.Store):
            yield inner.id if isinstance(inner, ast.Name) else inner.attr


def _chooses(node: ast.If, tells: _Workers) -> bool:
    """Whether this is `if index % workers == number`, which yields, or goes on to the next sample."""
    chosen = any(
        isinstance(inner, ast.Compare)
        and isinstance(inner.left, ast.BinOp)
        and isinstance(inner.left.op, ast.Mod)
        and tells(inner.left.right)
        and any(map(tells, inner.comparators))
        for inner in ast.walk(node.test)
    )
    yields = (ast.Yield, ast.YieldFrom)
    gives = any(isinstance(inner, yields) for each in node.body for inner in ast.walk(each))
    return chosen and (gives or isinstance(node.body[0], ast.Continue))


def _islice(node: ast.stmt) -> ast.Call | None:
    """`islice` with a step as what a loop goes through, numbered or not, or as what is given on."""
    if isinstance(node, ast.For):
        part: ast.expr = node.iter
    elif isinstance(node, ast.Expr) and isinstance(node.value, ast.YieldFrom):
        part = node.value.value
    else:
        return None
    if isinstance(part, ast.Call) and called_name(part) == "enumerate" and part.args:
        part = part.args[0]
    if not isinstance(part, ast.Call) or called_name(part) != "islice":
        return None
    return part if len(part.args) > 3 else None
