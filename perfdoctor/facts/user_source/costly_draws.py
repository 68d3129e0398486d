"""Knows calls that draw a few of many and go over all of them for it, each time they are called."""

from __future__ import annotations

import ast
import re
from enum import Enum

from perfdoctor.facts.user_source.parse import names_in, parsed_line

KEPT = re.compile(r"weight|priorit|freq|count", re.IGNORECASE)  # what a script keeps from draw to draw
NUMPYS = frozenset("rng np.random numpy.random random".split())  # whose first argument is a number


class Draw(Enum):
    """What such a call does with all that it draws from."""

    ADDS_WEIGHTS = "adds up all weights"
    PERMUTES = "permutes all"


def costly_draw(text: str | None) -> Draw | None:
    """What the first such call of a line does, or None."""
    tree = parsed_line(text)
    found = (_of_call(node) for node in (ast.walk(tree) if tree is not None else ()))
    return next((draw for draw in found if draw is not None), None)


def _of_call(call: ast.AST) -> Draw | None:
    """Numpy checks `p` and adds it up, `random` adds `weights` up, torch a tensor's; each time anew."""
    if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
        return None
    name, owner = call.func.attr, ast.unparse(call.func.value)
    given = {keyword.arg: keyword.value for keyword in call.keywords if not _is(keyword.value, None)}
    weights = {each for part in call.args[:1] for each in names_in(part)}
    # Of torch's, whose first argument are the weights; not what a model has just made.
    kept = name == "multinomial" and owner not in NUMPYS and any(map(KEPT.search, weights))
    if kept or (name == "choice" and "p" in given) or (name == "choices" and "weights" in given):
        return Draw.ADDS_WEIGHTS
    # generators of numpy do not
    legacy = name == "choice" and owner.endswith(".random") and _is(given.get("replace"), False)
    return Draw.PERMUTES if legacy else None


def _is(node: ast.expr | None, value: object) -> bool:
    return isinstance(node, ast.Constant) and node.value is value
