"""Knows lines that go over all of something for a few of it, each time they run: draws, and searches."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from enum import Enum

from perfdoctor.facts.user_source.parse import COMPREHENSIONS, names_in, parsed_line

KEPT = re.compile(r"weight|priorit|freq|count", re.IGNORECASE)  # what a script keeps from draw to draw
NUMPYS = frozenset("rng np.random numpy.random random".split())  # whose first argument is a number
PLACES = frozenset("argwhere flatnonzero nonzero where".split())  # the places where a mask holds
COMPARED = frozenset("eq ne lt le gt ge between isin startswith endswith contains match".split())
VIEWS = frozenset("items values keys".split())
NUMBERS = frozenset("enumerate zip reversed".split())


class PassOverAll(Enum):
    """What such a line does with all of it."""

    ADDS_WEIGHTS = "adds up all weights"
    PERMUTES = "permutes all"
    COMPARES_ROWS = "compares each row of a table"
    COMPARES_VALUES = "compares each value of an array"
    COMPARES_ITEMS = "compares each item of a list"


def pass_over_all(text: str | None) -> PassOverAll | None:
    """What the first such part of a line does, or None."""
    tree = parsed_line(text)
    found = (_of(node) for node in (ast.walk(tree) if tree is not None else ()))
    return next((passed for passed in found if passed is not None), None)


def _of(node: ast.AST) -> PassOverAll | None:
    if isinstance(node, ast.Call):
        return _of_draw(node) or _of_places(node)
    if isinstance(node, ast.Subscript):
        return _of_rows(node)
    if isinstance(node, (ast.Assign, ast.Expr)):  # a line of a longer statement looks like one by itself
        return _of_mask(node.value)
    if isinstance(node, COMPREHENSIONS):
        return _of_comprehension(node)
    return None


# ---------------------------------------------------------------- draws


def _of_draw(call: ast.Call) -> PassOverAll | None:
    """Numpy checks `p` and adds it up, `random` adds `weights` up, torch a tensor's; each time anew."""
    if not isinstance(call.func, ast.Attribute):
        return None
    name, owner = call.func.attr, ast.unparse(call.func.value)
    given = {keyword.arg: keyword.value for keyword in call.keywords if not _is(keyword.value, None)}
    weights = {each for part in call.args[:1] for each in names_in(part)}
    # Of torch's, whose first argument are the weights; not what a model has just made.
    kept = name == "multinomial" and owner not in NUMPYS and any(map(KEPT.search, weights))
    if kept or (name == "choice" and "p" in given) or (name == "choices" and "weights" in given):
        return PassOverAll.ADDS_WEIGHTS
    # generators of numpy do not
    legacy = name == "choice" and owner.endswith(".random") and _is(given.get("replace"), False)
    return PassOverAll.PERMUTES if legacy else None


def _is(node: ast.expr | None, value: object) -> bool:
    return isinstance(node, ast.Constant) and node.value is value


# ---------------------------------------------------------------- searches


def _of_places(call: ast.Call) -> PassOverAll | None:
    """`np.flatnonzero(self.owner == user)`, `(self.owner == user).nonzero()`, `table.query("owner == 3")`."""
    if not isinstance(call.func, ast.Attribute):
        return None
    if call.func.attr == "query" and call.args and isinstance(call.args[0], (ast.Constant, ast.JoinedStr)):
        return PassOverAll.COMPARES_ROWS
    if call.func.attr not in PLACES or len(call.args) > 1:
        return None
    return _of_mask(call.args[0] if call.args else call.func.value)


def _of_rows(node: ast.Subscript) -> PassOverAll | None:
    """`table[table["owner"] == user]`, `table.loc[table.owner == user, names]`."""
    rows = node.slice.elts[0] if isinstance(node.slice, ast.Tuple) and node.slice.elts else node.slice
    table = {ast.unparse(node.value), ast.unparse(node.value).removesuffix(".loc")}
    columns = (each for each in _operands(rows) if isinstance(each, ast.Attribute))
    return (
        PassOverAll.COMPARES_ROWS
        if any(ast.unparse(each.value) in table for each in columns)
        else _of_mask(rows)
    )


def _of_mask(node: ast.expr) -> PassOverAll | None:
    """What is compared, where a mask is made of what the script keeps; not of a batch or an item of it."""
    kept = [_compared(operand) for operand in _operands(node)]
    return next((passed for passed in kept if passed is not None), None)


def _operands(node: ast.expr) -> Iterator[ast.expr]:
    """What the comparisons compare of which a mask is put together."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.BitAnd, ast.BitOr)):
        yield from _operands(node.left)
        yield from _operands(node.right)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Invert):
        yield from _operands(node.operand)
    elif isinstance(node, ast.Compare) and not isinstance(
        node.ops[0], (ast.In, ast.NotIn, ast.Is, ast.IsNot)
    ):
        yield from (node.left, *node.comparators)
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in COMPARED:
        yield from (node.func.value, *node.args[:1])  # or `np.isin(values, wanted)`


def _compared(operand: ast.expr) -> PassOverAll | None:
    """What it is, where it is whole: a table's column, which calls leave so, or an array of an object's."""
    called = False
    while not isinstance(operand, ast.Attribute):
        if isinstance(operand, ast.Call) and isinstance(operand.func, ast.Attribute):
            called, operand = True, operand.func.value
        elif isinstance(operand, ast.Subscript) and isinstance(operand.slice, ast.Constant):
            if isinstance(operand.slice.value, str):
                return PassOverAll.COMPARES_ROWS
            operand = operand.value
        else:
            return None
    if isinstance(operand.value, ast.Subscript) or operand.attr == "str":
        return _compared(operand.value)
    return None if called else PassOverAll.COMPARES_VALUES


def _of_comprehension(
    node: ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp,
) -> PassOverAll | None:
    """`[row for row in self.rows if row.owner == user]`: of what an object holds, those like something."""
    generator = node.generators[0]
    if not _held_items(generator.iter):
        return None
    targets = names_in(generator.target)
    picked = any(
        isinstance(inner, ast.Compare) and isinstance(inner.ops[0], ast.Eq) and names_in(inner) & targets
        for test in generator.ifs
        for inner in ast.walk(test)
    )
    return PassOverAll.COMPARES_ITEMS if picked else None


def _held_items(node: ast.expr) -> bool:
    """Whether items of an attribute are gone through: by themselves, numbered, or as a dictionary's."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return node.func.attr in VIEWS and _held_items(node.func.value)
    if isinstance(node, ast.Call):
        return (
            isinstance(node.func, ast.Name) and node.func.id in NUMBERS and any(map(_held_items, node.args))
        )
    return isinstance(node, ast.Attribute)
