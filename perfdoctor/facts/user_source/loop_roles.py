"""Tells which lines of a training loop build the batch, which compute, and which do neither.

A backward slice over names, from the calls that train (model, backward): what the model, or work on what it
gave, needs and what does not come out of the model itself builds the batch. What a backward alone needs is
a loss of results that were kept from before. Attributes count for `self` only; order counts for what comes
out of the model, not for the slice. What it cannot follow it leaves unnamed.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Mapping, Set
from dataclasses import replace
from enum import Enum

from perfdoctor.facts.user_source.calculations import Calculations
from perfdoctor.facts.user_source.kept_results import KeptResults
from perfdoctor.facts.user_source.known_calls import BACKWARDS
from perfdoctor.facts.user_source.loop_statements import (
    LoopStatement,
    attributes_changed,
    attributes_read,
    base_of,
    items_set,
    parts_set,
    unit_of,
)
from perfdoctor.facts.user_source.number_results import numbers_set
from perfdoctor.facts.user_source.origins import called_name
from perfdoctor.facts.user_source.parse import (
    LOOPS,
    Function,
    Listing,
    calls,
    covers,
    header,
    statements,
    statements_at,
)
from perfdoctor.facts.user_source.step_loops import of_step, turned
from perfdoctor.model.dataclass import dataclass

IMPORTS = (ast.Import, ast.ImportFrom)
ADDING = {"sum", "mean", "stack", "cat", "scale"}  # how losses become one, which no model is called by


class Role(str, Enum):
    """What a line of the training loop is for."""

    TRAINS = "trains"  # calls the model, backward or the optimizer
    DATA = "data"  # builds the batch
    COMPUTE = "compute"  # works on what the model gave, be it in numbers, on the way to the loss
    ACTS = "acts"  # works on numbers that the model gave, and training needs what comes of it: an environment
    DRAWS = "draws"  # draws the batch by what earlier results changed: a replay buffer with priorities
    REST = "rest"
    OUTSIDE = "outside"  # not in the loop


class Loop:
    """The statements around the anchors of one function: its loop, or all of a function called per step.

    `may_train` tells which statements of a line of several it may be that train. `updating` are the anchors
    known to lead to updates: where none of them is in a loop, loops there are parts of a step, or tests.
    `updates` are the lines seen to, where any was seen: what a loop without one hands on from turn to turn,
    as a solver's does, are results of the same step.
    """

    def __init__(
        self,
        listing: Listing,
        anchors: Iterable[int],
        results: Iterable[str] = (),
        may_train: Callable[[ast.stmt], bool] | None = None,
        updating: Iterable[int] = (),
        updates: Iterable[int] | None = None,
    ) -> None:
        self.anchors = frozenset(anchors)
        first = min(self.anchors)
        scope = listing.scope(first)
        loops = _loops(listing, self.anchors)
        if not _loops(listing, self.anchors.intersection(updating) or self.anchors):
            loops = []
        self.is_loop = bool(loops)
        nodes = loops if loops else (scope.body if scope else [])
        found = [unit_of(node) for node in statements(list(dict.fromkeys(nodes)))]
        calculations = Calculations(listing)
        tuned = calculations.training.union(*map(_called, _at(found, self.anchors)))
        self.units = [replace(unit, sets=unit.sets - (parts_set(unit.node) & tuned)) for unit in found]
        self._training = _training(listing, self.units, self.anchors, may_train)
        numbers = {unit: numbers_set(listing, unit.node) for unit in self.units}
        self._taken: dict[int, bool] = {}
        inner = of_step(self.units, self._training, frozenset(updates)) if updates is not None else []
        self._parts = _split(
            self.units,
            turned(self.units, inner),
            self._training,
            frozenset(results),
            numbers,
            calculations,
            listing.once(_imported),
        )

    def role(self, line: int) -> Role:
        """What the statement at a line is for."""
        at = [unit for unit in self.units if covers(unit.node, line)]
        if not at:
            if self.units:
                return Role.OUTSIDE
            return Role.TRAINS if line in self.anchors else Role.REST  # no source to look at
        return self._of_unit(next((unit for unit in at if unit in self._training), at[-1]))

    def role_of(self, node: ast.stmt) -> Role:
        """What a statement is for, of those that share a line."""
        unit = next((unit for unit in self.units if unit.node is node), None)
        return self._of_unit(unit) if unit is not None else Role.OUTSIDE

    def _of_unit(self, unit: LoopStatement) -> Role:
        if unit in self._training:
            return Role.TRAINS
        parts = self._parts
        if unit in parts.data:
            return Role.DATA
        if unit in parts.draws:
            return Role.DRAWS
        if unit in parts.acts:
            return Role.ACTS
        return Role.COMPUTE if unit in parts.compute else Role.REST

    def gives(self, line: int) -> bool:
        """Whether a function that trains, or runs the model, works at a line on results that it returns."""
        return not self.is_loop and any(covers(unit.node, line) for unit in self._parts.returned)

    def takes(self, line: int) -> bool:
        """Whether training needs, at other lines, what the statement at a line sets."""
        if line not in self._taken:
            sets = {name for unit in self.units if covers(unit.node, line) for name in unit.sets}
            others = (unit for unit in self._training | self._parts.wanted if not covers(unit.node, line))
            self._taken[line] = bool(sets & _needs(others))
        return self._taken[line]

    def contains(self, line: int) -> bool:
        """Whether a line lies in the loop."""
        return not self.units or any(
            unit.node.lineno <= line <= (unit.node.end_lineno or 0) for unit in self.units
        )


@dataclass(frozen=True)
class _Purposes:
    """The units of a loop, or of a function, by what they are for."""

    data: set[LoopStatement]
    compute: set[LoopStatement]
    acts: set[LoopStatement]
    draws: set[LoopStatement]
    wanted: set[LoopStatement]  # whatever training needs
    returned: set[LoopStatement]  # work on results, on the way to what the function returns


def _loops(listing: Listing, anchors: Iterable[int]) -> list[ast.stmt]:
    """The outermost loops around these lines, or the comprehensions that they are."""
    lines = sorted(anchors)
    loops: list[ast.stmt] = [loop for line in lines if (loop := listing.outermost_loop(line)) is not None]
    return loops or [node for line in lines if (node := listing.comprehension(line)) is not None]


def _at(units: list[LoopStatement], anchors: frozenset[int]) -> list[LoopStatement]:
    return [unit for unit in units if any(covers(unit.node, line) for line in anchors)]


def _called(unit: LoopStatement) -> set[str]:
    """The names that a statement calls: `model.scale = 2` sets no part of a batch."""
    parts = [inner for part in header(unit.node) for inner in ast.walk(part)]
    return {name for inner in parts if isinstance(inner, ast.Call) and (name := base_of(inner.func))}


def _training(
    listing: Listing,
    units: list[LoopStatement],
    anchors: frozenset[int],
    may_train: Callable[[ast.stmt], bool] | None,
) -> frozenset[LoopStatement]:
    """The units at the anchors; of those that share a line, the ones that may train, if any does."""
    anchored = _at(units, anchors)
    idle: set[ast.stmt] = set()
    if may_train is None:
        return frozenset(anchored)
    for line in anchors:
        sharing = statements_at(listing, line)
        resting = [node for node in sharing if not may_train(node)] if len(sharing) > 1 else []
        idle.update(resting if len(resting) < len(sharing) else ())
    return frozenset(unit for unit in anchored if unit.node not in idle)


def _split(
    units: list[LoopStatement],
    run: list[LoopStatement],
    training: frozenset[LoopStatement],
    results: frozenset[str],
    numbers: Mapping[LoopStatement, frozenset[str]],
    calculations: Calculations,
    imported: frozenset[str],
) -> _Purposes:
    """What each unit is for: building the batch, computing between model and loss, acting, drawing.

    `run` are the units in the order in which they run, some of them more than once.
    """
    trained, acted, played = _from_model(run, training, results, numbers, calculations, imported)
    drawn = _steered(units, training, trained | acted, imported)
    acted |= drawn
    wanted = _slice(units, _needs(training))
    to_model = _slice(units, _needs(unit for unit in training if not _only_backward(unit.node)))
    fed = _slice(
        units, _needs(unit for unit in training | (wanted & trained) if not _only_backward(unit.node))
    )
    # What may step an environment gives what the model is shown next.
    calculating = {unit for unit in acted - drawn if calculations.calculates(unit.node)}
    alone = {unit for unit in calculating if not calculations.calls_functions(unit.node)}
    calculated = (alone - played) | (calculating - to_model)
    touching = {unit for unit in units if unit.needs & {".grad"}}
    compute = (wanted & (trained | calculated)) | (wanted - fed - acted) | touching
    returning = {unit for unit in units if isinstance(unit.node, ast.Return)}
    given = _slice(units, _needs(returning)) | returning
    return _Purposes(
        fed - trained - acted,
        compute,
        wanted & acted - drawn - calculated,
        wanted & drawn,
        wanted,
        given & (trained | (calculating - played)),
    )


def _needs(units: Iterable[LoopStatement]) -> set[str]:
    return {name for unit in units for name in unit.needs}


def _only_backward(node: ast.stmt) -> bool:
    """Whether a statement runs a backward and calls nothing that may be a model: `sum(losses).backward()`."""
    if not (isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)):
        return False
    last, called = node.value.func, {name for _, name in calls(node)}
    return isinstance(last, ast.Attribute) and last.attr in BACKWARDS and called <= BACKWARDS | ADDING


def _slice(units: list[LoopStatement], needed: set[str]) -> set[LoopStatement]:
    """Everything that the needed names come from, within these units."""
    bound = {name for unit in units for name in unit.sets}
    wanted: set[LoopStatement] = set()
    grew = True
    while grew:
        reached = {unit for unit in units if (unit.sets | (unit.changes & bound)) & needed}
        grew = len(reached) > len(wanted)
        wanted = reached
        needed = needed | {name for unit in wanted for name in unit.needs}
    return wanted


def _from_model(
    units: list[LoopStatement],
    training: frozenset[LoopStatement],
    results: frozenset[str],
    numbers: Mapping[LoopStatement, frozenset[str]],
    calculations: Calculations,
    imported: frozenset[str],
) -> tuple[set[LoopStatement], set[LoopStatement], set[LoopStatement]]:
    """Units that hold or use what came out of the model, as tensors and as plain numbers.

    A pass in source order, until a name is set anew. `results` are names seen to require gradients:
    parameters where the loop does not set them, else what the last statement that sets them gave. A number
    taken out of a tensor leaves the graph: what is done with it (an environment's step, say) is no batch
    that could have been built ahead. Of the units that use such numbers, the third set are those that use
    what more than arithmetic made of them. Rows that are drawn at random from what the loop keeps make a
    batch, whatever was put there. `numbers` are names that a function of the user's has set to such numbers.
    """
    last = {name: unit for unit in units for name in unit.sets}
    live = {name for name in results if name not in last}
    plain: set[str] = set()
    acting: set[str] = set()  # of the plain ones, what more than arithmetic made of them
    kept = KeptResults(units)
    from_model: set[LoopStatement] = set()
    acted: set[LoopStatement] = set()
    played: set[LoopStatement] = set()
    for unit in units:
        results_here = {name for name in unit.sets & results if last[name] is unit}
        trains = unit in training and not isinstance(unit.node, ast.If)
        drawing = None if results_here or trains else kept.draw(unit, live, plain)
        if drawing is not None:
            from_model -= drawing
            acted -= drawing
            live -= unit.sets
            plain -= unit.sets
            continue
        gives = bool(results_here or trains or unit.needs & (live | plain))
        kept.pass_by(unit, live, plain, gives)
        if not (results_here or trains) and _leaves(unit, live, plain, calculations):
            acted.add(unit)
            if unit.needs & acting or not calculations.calculates(unit.node):
                played.add(unit)
                acting |= unit.sets
            else:
                acting -= unit.sets - parts_set(unit.node)
            plain |= unit.sets
            live -= unit.sets
        elif gives:
            from_model.add(unit)
            leaves = unit.gives_numbers and (trains or unit.leaves_graph)
            gone, held = (live, plain) if leaves else (plain, live)
            gone -= unit.sets
            held |= unit.sets
            acting -= unit.sets
            live |= unit.changes - imported
            live -= numbers.get(unit, frozenset())
            plain |= numbers.get(unit, frozenset())
        else:
            live -= unit.sets
            plain -= unit.sets
    return from_model, acted, played & acted


def _leaves(unit: LoopStatement, live: Set[str], plain: Set[str], calculations: Calculations) -> bool:
    """Whether a unit works on numbers, and not on tensors with them: `loss = (goal * logits).sum()`."""
    if unit.needs & live and not unit.leaves(live):
        return bool(unit.needs & plain) and not calculations.calculates(unit.node)
    return bool(unit.needs & (plain | live))


def _steered(
    units: list[LoopStatement],
    training: frozenset[LoopStatement],
    of_results: set[LoopStatement],
    imported: frozenset[str],
) -> set[LoopStatement]:
    """Units before the model that draw from what the results of an earlier turn changed: priorities.

    A replay buffer that takes the errors of what it gave decides by them what it gives next, so that no batch
    can be drawn ahead. One that only takes what was played, or a bank of features, gives what it would have
    given a turn earlier too: nothing that was drawn from it comes back. What a loop goes through is left
    out: progress bars are told results and yield what they would have yielded.
    """
    changes = {unit: _changed_by_results(unit) - imported for unit in units if unit in of_results}
    changeable = frozenset().union(*changes.values())
    steered: set[LoopStatement] = set()
    for start, unit in enumerate(units):
        drawn_from = (unit.needs - unit.sets | attributes_read(unit.node)) & changeable
        if not (drawn_from and unit.sets) or unit in of_results or unit in training:
            continue
        goes_through = isinstance(unit.node, (*LOOPS, *Function.__args__))
        if not goes_through and _given_back(units[start:], drawn_from, changes):
            steered |= _drawn(units[start:], training, of_results)
    return steered


def _changed_by_results(unit: LoopStatement) -> frozenset[str]:
    """What a statement that uses results changes in place, other than to log: no logarithm does."""
    value = unit.node.value if isinstance(unit.node, ast.Expr) else None
    logged = isinstance(value, ast.Call) and called_name(value).startswith("log")
    return frozenset() if logged else unit.changes | items_set(unit.node) | attributes_changed(unit.node)


def _given_back(
    units: list[LoopStatement], drawn_from: frozenset[str], changes: Mapping[LoopStatement, frozenset[str]]
) -> bool:
    """Whether results that come from the first unit change, in the same turn, what that one draws from."""
    drawn = set(units[0].sets)
    for unit in units[1:]:
        changed = changes.get(unit, frozenset()) & drawn_from
        if changed and (unit.needs - changed) & drawn:
            return True
        if unit.needs & drawn:
            drawn |= unit.sets | unit.changes
        else:
            drawn -= unit.sets
    return False


def _drawn(
    units: list[LoopStatement], training: frozenset[LoopStatement], of_results: set[LoopStatement]
) -> set[LoopStatement]:
    """The first unit, and those that go on to work on what it gave, up to the model."""
    names, found = set(units[0].sets), {units[0]}
    for unit in units[1:]:
        if unit.needs & names and unit not in of_results and unit not in training:
            found.add(unit)
            names |= unit.sets | unit.changes
        else:
            names -= unit.sets
    return found


def _imported(listing: Listing) -> frozenset[str]:
    """The names that a file imports: `torch.save(out)` changes nothing that `torch.tensor(rows)` needs."""
    imports = (node for node in (ast.walk(listing.tree) if listing.tree else ()) if isinstance(node, IMPORTS))
    return frozenset((name.asname or name.name).partition(".")[0] for node in imports for name in node.names)
