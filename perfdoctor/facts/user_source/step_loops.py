"""Finds the loops that are part of a step, as a solver's or a roll-out's are, and follows their turns.

Such a loop calls the model at each turn with what it made of earlier turns' results. In the order of the text
that comes before the call; from the second turn on it comes after one.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Set

from perfdoctor.facts.user_source.loop_statements import LoopStatement
from perfdoctor.facts.user_source.parse import LOOPS, statements

LoopNode = ast.For | ast.AsyncFor | ast.While


def of_step(units: list[LoopStatement], training: Set[LoopStatement], updates: Set[int]) -> list[LoopNode]:
    """The loops whose turns all belong to one step: they call the model, and hold no update."""
    calling = {unit.node for unit in training}
    loops = (unit.node for unit in units if isinstance(unit.node, LOOPS))
    return [
        loop
        for loop in loops
        if not calling.isdisjoint(statements(loop.body))
        and not any(loop.lineno <= line <= (loop.end_lineno or 0) for line in updates)
    ]


def turned(units: list[LoopStatement], loops: Iterable[LoopNode]) -> list[LoopStatement]:
    """The units in the order in which they run, with a second turn of these loops."""
    found = list(units)
    for loop in reversed(list(loops)):  # inner ones first
        inside = set(statements(loop.body))
        at = [index for index, unit in enumerate(found) if unit.node in inside]
        if at:
            found[at[-1] + 1 : at[-1] + 1] = found[at[0] : at[-1] + 1]
    return found
