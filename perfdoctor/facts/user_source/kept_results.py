"""Tells rows that a loop draws from what it keeps, as a replay buffer's, from results of the same turn.

What a loop puts away turn by turn holds results of many turns, and rows that are drawn from it at random make
a batch. What it reads in order, as the rewards of an episode, are results still.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence, Set

from perfdoctor.facts.user_source.loop_statements import LoopStatement, base_of, items_set, parts_set
from perfdoctor.facts.user_source.origins import called_name
from perfdoctor.facts.user_source.parse import Function, header

# `memory.sample_batch()`, `rng.integers()`, `random.choices()`, `torch.randperm()`
DRAWING = re.compile(r"(?:^|_)(?:sample|draw|choices?|randint|integers|randperm|permutation|multinomial)")


class KeptResults:
    """The names of one loop into which results are put, statement by statement.

    Kept is what no statement of the loop sets as a whole. `of_kept` are names computed from that alone, with
    the statements that do, as the chances by which rows are drawn; `rows` are drawn.
    """

    def __init__(self, units: Sequence[LoopStatement]) -> None:
        whole = {name for unit in units for name in unit.sets - parts_set(unit.node)}
        self._filled = {name for unit in units for name in unit.changes | items_set(unit.node)} - whole
        self._kept: set[str] = set()
        self._of_kept: dict[str, set[LoopStatement]] = {}
        self._rows: set[str] = set()

    def draw(self, unit: LoopStatement, live: Set[str], plain: Set[str]) -> set[LoopStatement] | None:
        """The statements on the way to rows that this one draws from what is kept; None if it does not.

        `live` and `plain` are the names that hold results. Numbers may steer a draw, as a schedule does.
        """
        drawn_from = _drawn_from(unit.node)
        if drawn_from is None and not unit.needs & self._rows:
            return None
        apart = unit.needs - self._kept - self._of_kept.keys()
        if apart & live or (apart & plain and not (drawn_from or set()) & self._filled):
            return None
        on_the_way = {made for name in unit.needs for made in self._of_kept.get(name, ())}
        self._forget(unit)
        self._rows |= unit.sets
        return on_the_way

    def pass_by(self, unit: LoopStatement, live: Set[str], plain: Set[str], gives: bool) -> None:
        """Note what a statement that draws nothing leaves behind; `gives`: results, or work on them."""
        held = unit.needs & (live | plain)
        kept_alone = bool(held) and held <= self._kept | self._of_kept.keys()
        on_the_way = {made for name in held for made in self._of_kept.get(name, ())} | {unit}
        self._forget(unit)
        if gives:
            self._kept |= (unit.changes | items_set(unit.node)) & self._filled
            if kept_alone:
                self._of_kept.update(dict.fromkeys(unit.sets - parts_set(unit.node), on_the_way))

    def _forget(self, unit: LoopStatement) -> None:
        self._rows -= unit.sets
        for name in unit.sets:
            self._of_kept.pop(name, None)


def _drawn_from(node: ast.stmt) -> set[str] | None:
    """The names whose methods draw at random in a statement; None where nothing in it draws."""
    if isinstance(node, Function):
        return None
    found = [
        inner
        for part in header(node)
        for inner in ast.walk(part)
        if isinstance(inner, ast.Call) and DRAWING.search(called_name(inner))
    ]
    owners = (base_of(call.func.value) for call in found if isinstance(call.func, ast.Attribute))
    return {name for name in owners if name} if found else None
