"""Tells how many targets a loss ignores, and what computing their scores takes: IgnoredTargetFacts."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from dataclasses import replace

from perfdoctor.facts.host.stack_costs import StackCosts
from perfdoctor.facts.registry import fact
from perfdoctor.facts.script.model_and_optimizers import files_of
from perfdoctor.facts.user_source.origins import called_name
from perfdoctor.facts.user_source.parse import Sources, statements
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
    """The lines of the loss that takes the training's time; of the first one where no stack tells."""
    spent: dict[tuple[str, int], float] = {}
    files = files_of(rank)
    for cost in stacks.costs if stacks is not None else ():
        for frame in cost.path:
            files.append(frame.file)
            spent[frame.file, frame.line] = spent.get((frame.file, frame.line), 0.0) + cost.seconds
    found = [lines for file in dict.fromkeys(files) for lines in _losses(file, sources)]
    return max(found, key=lambda lines: sum(spent.get((at.file, at.line), 0.0) for at in lines), default=())


def _losses(file: str, sources: Sources) -> Iterator[tuple[Location, ...]]:
    """Each call of a loss that may ignore targets, with the line before it that its scores come from."""
    listing = sources.file(file)
    if listing.tree is None:
        return
    nodes = list(ast.walk(listing.tree))
    criteria = {
        _name(target)
        for node in nodes
        if isinstance(node, ast.Assign)
        and isinstance(node.value, ast.Call)
        and called_name(node.value) in CLASSES
        for target in node.targets
    }
    for node in nodes:
        if isinstance(node, ast.Call) and node.args and called_name(node) in FUNCTIONS | criteria:
            scope = listing.scope(node.lineno)
            scores = _base(node.args[0])
            made = [
                before.lineno
                for before in (statements(scope.body) if scope is not None else ())
                if isinstance(before, ast.Assign)
                and before.lineno < node.lineno
                and scores in map(_name, before.targets)
            ]
            yield tuple(
                Location(file, line, None, sources.text(file, line)) for line in (*made[-1:], node.lineno)
            )


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
