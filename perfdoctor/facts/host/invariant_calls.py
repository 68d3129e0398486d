"""Finds calls inside a loop of a step that are the same at each of its turns: InvariantCallFacts."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise

from perfdoctor.facts.host.stack_costs import StackCost, StackCosts, charged_most, share_of_batch
from perfdoctor.facts.registry import fact
from perfdoctor.facts.user_source.frames import Frame, Owner
from perfdoctor.facts.user_source.loop_statements import handed, parts_set, unit_of
from perfdoctor.facts.user_source.origins import base_name, called_name
from perfdoctor.facts.user_source.parse import COMPREHENSIONS, Function, Sources, header, statements
from perfdoctor.facts.user_source.update_dependence import only_gives
from perfdoctor.model.concluded import Bottleneck
from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.measured import Location, StepFacts
from perfdoctor.model.missing import Missing

# Methods that list what an object holds, or look all of it through, and change nothing.
LISTING = frozenset(
    "parameters named_parameters buffers named_buffers children named_children modules named_modules "
    "state_dict get_vocab groupby unique value_counts sort_values to_numpy tolist to_dict".split()
)


@dataclass(frozen=True)
class InvariantCall:
    """A call that a loop makes again at each turn, with the same result."""

    at: Location
    call: str  # as it is written
    loop: int  # the line of the loop
    share: float  # of the step
    of_batch: float  # of what a batch costs, of which a part is waited for
    samples: int
    bottleneck: Bottleneck


@dataclass(frozen=True)
class InvariantCallFacts:
    """Such calls, the costliest first."""

    calls: tuple[InvariantCall, ...] = ()


@fact
def invariant_call_facts(
    step: StepFacts, costs: StackCosts | Missing, sources: Sources
) -> InvariantCallFacts | Missing | None:
    """Of loops inside a step, and not of the one that trains; None where there is no such call."""
    if isinstance(costs, Missing):
        return costs
    code = _LoopCode(sources, costs.anchors)
    below: dict[tuple[str, int, str, int], list[StackCost]] = defaultdict(list)
    for cost in costs.costs:
        found = code.outermost((*cost.path, *cost.beyond))
        if found is not None:
            below[found].append(cost)
    if not below or not step.mean_s:
        return None
    calls = [_found(place, costs_there, step, sources) for place, costs_there in below.items()]
    return InvariantCallFacts(tuple(sorted(calls, key=lambda call: -call.share)))


def _found(
    place: tuple[str, int, str, int], costs: list[StackCost], step: StepFacts, sources: Sources
) -> InvariantCall:
    file, line, call, loop = place
    return InvariantCall(
        at=sources.at(file, line),
        call=call,
        loop=loop,
        share=min(1.0, sum(cost.seconds for cost in costs) / step.mean_s),
        of_batch=share_of_batch(costs, step),
        samples=sum(cost.samples for cost in costs),
        bottleneck=charged_most(costs),
    )


class _LoopCode:
    """The loops of the user's code, but for those that train."""

    def __init__(self, sources: Sources, anchors: frozenset[tuple[str, int]]) -> None:
        self._sources, self._anchors = sources, anchors
        self._known: dict[tuple[str, int, str, str, int], tuple[str, int, str, int] | None] = {}

    def outermost(self, frames: tuple[Frame, ...]) -> tuple[str, int, str, int] | None:
        """The place, call and loop of the outermost call of a stack that is the same at each turn."""
        for frame, called in pairwise(frames):
            if frame.owner is not Owner.USER:
                return None
            key = frame.file, frame.line, called.name, called.file, called.line
            if key not in self._known:
                self._known[key] = self._invariant(frame, called)
            if self._known[key] is not None:
                return self._known[key]
        return None

    def _invariant(self, frame: Frame, called: Frame) -> tuple[str, int, str, int] | None:
        listing = self._sources.file(frame.file)
        node = listing.statement(frame.line)
        if node is None or not self._only_gives(called):
            return None
        calls = [
            inner
            for part in header(node)
            for inner in ast.walk(part)
            if isinstance(inner, ast.Call) and called_name(inner) == called.name
        ]
        for call in calls:
            for loop, changed in self._turns(frame, node, call):
                if not changed & _needed(call) and not _takes_the_next(call):
                    return frame.file, frame.line, ast.unparse(call), loop
        return None

    def _turns(self, frame: Frame, node: ast.stmt, call: ast.Call) -> Iterator[tuple[int, set[str]]]:
        """The loops around a call, the outermost first: the line, and what its turns change."""
        for loop in self._sources.file(frame.file).loops(frame.line):
            inside = range(loop.lineno, (loop.end_lineno or loop.lineno) + 1)
            if loop is node or any(file == frame.file and line in inside for file, line in self._anchors):
                continue
            units = [unit_of(each) for each in statements([loop])]
            changed = {name for unit in units for name in unit.sets | unit.changes | parts_set(unit.node)}
            yield loop.lineno, changed.union(*(handed(unit.node) for unit in units))
        for part in header(node):
            for inner in ast.walk(part):
                if isinstance(inner, COMPREHENSIONS) and call in ast.walk(inner):
                    first = inner.generators[0].iter  # evaluated once
                    if call not in ast.walk(first):
                        turned = [each.target for each in inner.generators]
                        yield (
                            inner.lineno,
                            {
                                name.id
                                for target in turned
                                for name in ast.walk(target)
                                if isinstance(name, ast.Name)
                            },
                        )

    def _only_gives(self, called: Frame) -> bool:
        """Whether what is called changes nothing, and gives the same for the same."""
        if called.owner is not Owner.USER:
            return called.name in LISTING
        listing = self._sources.file(called.file)
        function = listing.scope(called.line)
        if not isinstance(function, Function) or function.name != called.name:
            return False
        return only_gives(self._sources, called.file, function)


def _needed(call: ast.Call) -> set[str]:
    """The names that a call depends on; of a chain, those of each object."""
    needs = set(unit_of(ast.Expr(call, lineno=call.lineno, end_lineno=call.end_lineno)).needs)
    attributes = (inner for inner in ast.walk(call) if isinstance(inner, ast.Attribute))
    return needs | {name for inner in attributes if (name := base_name(inner.value))}


def _takes_the_next(call: ast.Call) -> bool:
    """Whether what a call is given is the next of an iterator: another one at each turn."""
    return any(isinstance(inner, ast.Call) and called_name(inner) == "next" for inner in ast.walk(call))
