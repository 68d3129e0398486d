"""Tells what the turns of a loop hand to each other."""

from __future__ import annotations

import ast
from collections.abc import Sequence

from perfdoctor.facts.user_source.gathering import gathers_in
from perfdoctor.facts.user_source.loop_statements import handed, unit_of
from perfdoctor.facts.user_source.parse import statements


def carried(body: Sequence[ast.stmt]) -> set[str]:
    """Names that a turn of a loop with this body may read before it sets them: the turn before set them.

    A name that the loop only gathers in is none of them: all turns at once can fill a sum or a tensor.
    """
    nodes = list(statements(list(body)))
    gathers = {name for node in nodes if (name := gathers_in(node)) is not None}
    read = {name for node in nodes for name in unit_of(node).needs if name != gathers_in(node)}
    every = {name for node in nodes for name in unit_of(node).sets | unit_of(node).changes | handed(node)}
    early: set[str] = set()
    _walk(body, every, set(), early)
    return early - (gathers - read)


def _walk(body: Sequence[ast.stmt], every: set[str], known: set[str], early: set[str]) -> set[str]:
    """Adds to `early` what is read before it surely was set; returns what surely is set after the body."""
    for node in body:
        unit = unit_of(node)
        early |= (unit.needs & every) - known
        known = known | unit.sets
        if isinstance(node, ast.If):
            known = _walk(node.body, every, known, early) & _walk(node.orelse, every, known, early)
        elif isinstance(node, (ast.For, ast.With)):  # a loop inside has turns, as a rule
            known = _walk(node.body, every, known, early)
        elif hasattr(node, "body"):
            for part in ("body", "orelse", "finalbody"):
                _walk(getattr(node, part, []), every, known, early)
    return known
