"""Tells which lines of a training loop are handed tensors that came out of the model."""

from __future__ import annotations

from collections.abc import Set

from perfdoctor.facts.user_source.loop_roles import Loop
from perfdoctor.facts.user_source.parse import calls, covers


def is_handed_results(loop: Loop, line: int, counting: Set[str]) -> bool:
    """Whether a name that a line needs holds a tensor that came out of the model, as the lines above set it.

    A number taken out of a tensor is none. Of what `counting` return, functions that take such numbers,
    nothing is known: it counts as numbers.
    """
    held: set[str] = set()
    for unit in loop.units:
        if covers(unit.node, line):
            return bool(unit.needs & held)
        trains = any(covers(unit.node, anchor) for anchor in loop.anchors)
        numbers = unit.leaves_graph or any(name in counting for _, name in calls(unit.node))
        if not numbers and (trains or unit.needs & held):
            held |= unit.sets | unit.changes
        else:
            held -= unit.sets
    return False
