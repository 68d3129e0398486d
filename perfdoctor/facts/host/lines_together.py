"""Puts lines of one function together that are one piece of work: neighbours, or calls of one function."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from perfdoctor.facts.host.stack_costs import StackCost
from perfdoctor.facts.host.step_lines import called
from perfdoctor.facts.user_source.frames import Owner
from perfdoctor.facts.user_source.parse import Sources, statements
from perfdoctor.model.measured import Location, Phase

LineOfPhase = tuple[Phase, str, int]  # phase, file, line
# Statements from one line to the next: one between two that take time may be so short that no sample met it.
NEXT = 2

_Function = tuple[Phase, str, str | None]  # phase, file, function


def lines_together(
    paths: Iterable[tuple[Sequence[Location], StackCost]], sources: Sources
) -> Mapping[LineOfPhase, int]:
    """For each line that time lies below, in its phase, the first line of those that it is together with.

    `paths` are the user's lines from outside in that lead to each cost.
    """
    lines: dict[_Function, set[int]] = defaultdict(set)
    calling: dict[_Function, dict[str, set[int]]] = defaultdict(lambda: defaultdict(set))
    for path, cost in paths:
        for at in path:
            lines[cost.phase, at.file, at.function].add(at.line)
        meant = called(cost.beyond)
        if meant is not None and meant.owner is Owner.LIBRARY:
            last = path[-1]
            calling[cost.phase, last.file, last.function][meant.file + meant.function].add(last.line)
    firsts: dict[LineOfPhase, int] = {}
    for (phase, file, function), numbers in lines.items():
        alike = calling[phase, file, function].values() if (phase, file, function) in calling else ()
        for group in _joined((*_neighbours(file, numbers, sources), *alike)):
            firsts.update(dict.fromkeys(((phase, file, line) for line in group), min(group)))
    return firsts


def _neighbours(file: str, numbers: Iterable[int], sources: Sources) -> list[set[int]]:
    """Lines whose statements follow each other; each alone where the source is not to be had."""
    listing = sources.file(file)
    groups: list[set[int]] = []
    before: tuple[object, int] | None = None  # the function and the place in it of the last line's statement
    for line in sorted(numbers):
        scope, node = listing.scope(line), listing.statement(line)
        at = list(statements(scope.body)).index(node) if scope is not None and node is not None else None
        if at is not None and before is not None and before[0] is scope and at - before[1] <= NEXT:
            groups[-1].add(line)
        else:
            groups.append({line})
        before = None if at is None else (scope, at)
    return groups


def _joined(groups: Iterable[set[int]]) -> list[set[int]]:
    """The groups, with those that share a line made one."""
    joined: list[set[int]] = []
    for group in groups:
        shared = [other for other in joined if other & group]
        joined = [*(other for other in joined if not other & group), group.union(*shared)]
    return joined
