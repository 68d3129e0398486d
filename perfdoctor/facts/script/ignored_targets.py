"""Tells how many targets a loss ignores, and what computing their scores takes: IgnoredTargetFacts."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import takewhile

from perfdoctor.facts.host.stack_costs import StackCost, StackCosts
from perfdoctor.facts.registry import fact
from perfdoctor.facts.script.model_and_optimizers import files_of
from perfdoctor.facts.user_source.frames import Owner
from perfdoctor.facts.user_source.known_calls import MOVES
from perfdoctor.facts.user_source.origins import SourceFile, bound, called_name, methods
from perfdoctor.facts.user_source.parse import Sources, statements
from perfdoctor.facts.user_source.project import project_files
from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.measured import Location, StepFacts
from perfdoctor.model.missing import Missing
from perfdoctor.runs.types import RankRecords
from perfdoctor.wire.events.training import IgnoredTargetsEvent

FEW = 3  # looks; fewer do not tell what is usual
FUNCTIONS = frozenset(("cross_entropy", "nll_loss"))
CLASSES = frozenset(("CrossEntropyLoss", "NLLLoss"))


@dataclass(frozen=True)
class IgnoredTargetFacts:
    """Scores that are computed for targets that the loss ignores."""

    ignored: float  # share of all targets
    backward_s: float  # of a step: from the loss to behind the product that gives its scores
    classes: int
    at: tuple[Location, ...]  # where the scores are computed, and where the loss is; empty: not by the script
    ignore_index: int | None = None  # what such targets are; None: not known
    losses: float = 1.0  # of a step, of such scores
    rows: float = 0.0  # of a step, positions that get scores; 0: not known
    width: int = 0  # of what the scores are computed from; 0: not known


@fact
def ignored_target_facts(
    rank: RankRecords, step: StepFacts, sources: Sources, stacks: StackCosts | Missing | None
) -> IgnoredTargetFacts | None:
    """By the last of the running totals, of the head with most to save; None where all targets count."""
    heads = {event.head: event for event in rank.of(IgnoredTargetsEvent)}
    found = [
        IgnoredTargetFacts(
            ignored=last.ignored / last.targets,
            backward_s=last.seconds / last.looks * step.backwards_per_step * _share(last),
            classes=last.classes,
            at=(),
            ignore_index=last.ignore_index,
            losses=step.backwards_per_step * _share(last),
            rows=last.rows / last.looks * step.backwards_per_step * _share(last),
            width=last.width,
        )
        for last in heads.values()
        if last.looks >= FEW and 0 < last.ignored <= last.targets
    ]
    if not found:
        return None
    most = max(found, key=lambda head: head.ignored * head.backward_s)
    return replace(most, at=_lines(rank, sources, stacks if isinstance(stacks, StackCosts) else None))


def _share(last: IgnoredTargetsEvent) -> float:
    """How many of a step's backwards come to this head; all of them where none were counted."""
    return min(1.0, last.at_head / last.counted) if last.counted else 1.0


def _lines(rank: RankRecords, sources: Sources, stacks: StackCosts | None) -> tuple[Location, ...]:
    """The lines of the loss that takes the training's time; of the first one where no stack tells.

    A loss that the source does not show is where stacks saw torch's own be called.
    """
    spent: dict[tuple[str, int], float] = defaultdict(float)
    calling: dict[tuple[str, int], float] = defaultdict(float)
    files = files_of(rank)
    for cost in stacks.costs if stacks is not None else ():
        for frame in cost.path:
            files.append(frame.file)
            spent[frame.file, frame.line] += cost.seconds
        if _calls_loss(cost):
            calling[cost.line.file, cost.line.line] += cost.seconds
    found = list(losses(project_files(files, sources), sources))
    if not found and calling:
        return (sources.at(*max(calling, key=lambda place: calling[place])),)
    return max(found, key=lambda lines: sum(spent.get((at.file, at.line), 0.0) for at in lines), default=())


def _calls_loss(cost: StackCost) -> bool:
    """Whether a line of the user's calls such a loss, with no library but torch between."""
    of_torch = list(takewhile(lambda frame: frame.owner is Owner.TORCH, cost.beyond))
    return any(frame.name in FUNCTIONS for frame in of_torch)


def losses(files: Iterable[str], sources: Sources) -> Iterator[tuple[Location, ...]]:
    """Each call of a loss that may ignore targets, with the line before it that its scores come from."""
    listings = {file: sources.file(file) for file in files}
    criteria = _Criteria([listing.once(SourceFile) for listing in listings.values()])
    for file, listing in listings.items():
        for node in ast.walk(listing.tree) if listing.tree is not None else ():
            if not isinstance(node, ast.Call) or not criteria.is_one(node.func):
                continue
            scores = _scores(node)
            if scores is None:
                continue
            scope, line = listing.scope(node.lineno), node.lineno
            made = [
                before.lineno
                for before in (statements(scope.body) if scope is not None else ())
                if isinstance(before, ast.Assign)
                and before.lineno < line
                and _base(scores) in map(_name, before.targets)
            ]
            yield tuple(sources.at(file, number) for number in (*made[-1:], line))


def _scores(call: ast.Call) -> ast.expr | None:
    """What a loss is given first."""
    named = [word.value for word in call.keywords if word.arg == "input"]
    return next(iter([*call.args, *named]), None)


class _Criteria:
    """What losses that may ignore targets are called in some files: by name, whatever the file."""

    def __init__(self, files: Sequence[SourceFile]) -> None:
        self._files = files
        self._classes = set(CLASSES)
        self._names = set(FUNCTIONS)
        known = 0
        while known != len(self._classes) + len(self._names):
            known = len(self._classes) + len(self._names)
            for file in files:
                self._add(file)

    def _add(self, file: SourceFile) -> None:
        """The classes and names of a file, by those that are known."""
        for name, owner in file.classes.items():
            if self._classes & set(map(_name, owner.bases)):
                self._classes.add(name)
        self._names |= {
            name.rpartition(".")[2] for name, values in file.origins.items() if any(map(self.is_one, values))
        }
        for call in file.calls:
            if any(map(self.is_one, (*call.args, *(word.value for word in call.keywords)))):
                self._pass_on(call)

    def _pass_on(self, call: ast.Call) -> None:
        """The parameters that a call hands losses to."""
        for file in self._files:
            owner = file.classes.get(called_name(call))
            for function in (
                methods(owner, "__init__") if owner else file.functions.get(called_name(call), [])
            ):
                self._names |= {name for name, value in bound(function, call) if self.is_one(value)}

    def is_one(self, node: ast.expr) -> bool:
        """Whether an expression is such a loss, or holds nothing else."""
        if isinstance(node, ast.Subscript):
            return self.is_one(node.value)
        if isinstance(node, ast.Dict | ast.List | ast.Tuple):
            values = node.values if isinstance(node, ast.Dict) else node.elts
            return bool(values) and all(map(self.is_one, values))
        if not isinstance(node, ast.Call):
            return _name(node) in self._names
        if isinstance(node.func, ast.Attribute) and called_name(node) in MOVES:
            return self.is_one(node.func.value)
        if called_name(node) == "partial" and node.args:
            return self.is_one(node.args[0])
        return called_name(node) in self._classes


def _name(node: ast.AST) -> str | None:
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", None)


def _base(node: ast.expr) -> str | None:
    """The name of what is reshaped: `logits` of `logits.view(-1, n)` and of `logits[mask]`."""
    while True:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            node = node.func.value
        elif isinstance(node, ast.Subscript):
            node = node.value
        else:
            return _name(node)
