"""Tells which of the statements that share a line a stack is at, where no wrapper of the probe is on it.

A stack has lines and no columns: the statements are told apart by what they call, and what each is for.
"""

from __future__ import annotations

import ast
from collections.abc import Sequence

from perfdoctor.facts.user_source.frames import Frame, Owner
from perfdoctor.facts.user_source.known_calls import BACKWARDS, TRAINING_CALLS
from perfdoctor.facts.user_source.loop_roles import Loop, Role
from perfdoctor.facts.user_source.parse import Listing, calls, statements_at
from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.measured import Phase

TAKES = frozenset({"__next__", "__iter__"})  # what a loop takes its next turn from, if written in Python
COMPUTING = frozenset({Role.TRAINS, Role.COMPUTE})


@dataclass(frozen=True)
class SharingStatement:
    """One statement of a line of several."""

    node: ast.stmt
    role: Role
    doubtful: bool = False  # the line has another one that computes, and the frames do not tell which it was


def sharing_statement(
    listing: Listing, loop: Loop, line: int, beyond: Sequence[Frame]
) -> SharingStatement | None:
    """The statement that called the frames beyond; None where the line has one, or it cannot be told."""
    sharing = statements_at(listing, line)
    if sharing and beyond and beyond[0].name in TAKES and beyond[0].owner is not Owner.TORCH:
        heads = [around for around in listing.loops(line) if around.lineno == line]
        if heads:
            return SharingStatement(heads[-1], Role.DATA)
    if len(sharing) < 2:
        return None
    if not beyond:
        return _in_c([SharingStatement(node, loop.role_of(node)) for node in sharing])
    for frame in beyond:
        called = [node for node in sharing if frame.name in _names(node)]
        if called:
            return SharingStatement(called[-1], loop.role_of(called[-1]))
        if frame.owner is Owner.USER:
            break
    return None


def _in_c(sharing: Sequence[SharingStatement]) -> SharingStatement | None:
    """The statement that called a function in C, which has no frame; `backward()` and `step()` have some."""
    calling = [one for one in sharing if not _names(one.node) <= TRAINING_CALLS]
    others = [one for one in calling if one.role not in COMPUTING]
    if not others:
        return None
    return SharingStatement(others[-1].node, others[-1].role, doubtful=len(others) < len(calling))


def phases_around(
    listing: Listing, loop: Loop, node: ast.stmt, phases: Sequence[Phase]
) -> tuple[list[Phase], list[Phase]] | None:
    """Of the phases that a line leads into, those before and those after one of its statements.

    None where the statement leads into one itself, or it is not told which one does.
    """
    sharing = statements_at(listing, node.lineno)
    places = {phase: _place(phase, sharing, loop) for phase in phases}
    at = sharing.index(node) if node in sharing else None
    if at is None or None in places.values() or at in places.values():
        return None
    ordered = sorted(((place, phase) for phase, place in places.items() if place is not None), key=_first)
    return [phase for place, phase in ordered if place < at], [
        phase for place, phase in ordered if place > at
    ]


def _first(entry: tuple[int, Phase]) -> int:
    return entry[0]


def _place(phase: Phase, sharing: Sequence[ast.stmt], loop: Loop) -> int | None:
    """Which statement of a line leads into a phase."""
    if phase is Phase.BACKWARD:
        found = [index for index, node in enumerate(sharing) if _names(node) & BACKWARDS]
        return found[-1] if found else None
    if phase is Phase.OPTIMIZER:
        found = [index for index, node in enumerate(sharing) if "step" in _names(node)]
    else:
        found = [
            index
            for index, node in enumerate(sharing)
            if loop.role_of(node) is Role.TRAINS and not _names(node) <= TRAINING_CALLS
        ]
    return found[0] if found else None


def _names(node: ast.stmt) -> set[str]:
    return {name for _, name in calls(node)}
