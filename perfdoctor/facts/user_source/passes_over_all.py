"""Knows lines that go over all of something for a few of it, each time they run: draws, and searches."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from enum import Enum
from typing import NamedTuple

from perfdoctor.facts.user_source.origins import SELVES, called_name
from perfdoctor.facts.user_source.parse import COMPREHENSIONS, names_in, parsed_line

KEPT = re.compile(r"weight|priorit|freq|count", re.IGNORECASE)  # what a script keeps from draw to draw
NUMPYS = frozenset("rng np.random numpy.random random".split())  # whose first argument is a number
PLACES = frozenset("argwhere flatnonzero nonzero where".split())  # the places where a mask holds
ORDERED = frozenset("lt le gt ge between".split())
COMPARED = ORDERED | frozenset("eq isin startswith endswith contains match".split())
TO_KEYS = frozenset("int str item lower upper strip".split())
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
    given = {word.arg: word.value for word in call.keywords if not _is(word.value, None)}
    # A few that are written out are no matter.
    many = {name for name, value in given.items() if not isinstance(value, (ast.List, ast.Tuple))}
    weights = {each for part in call.args[:1] for each in names_in(part)}
    # Of torch's, whose first argument are the weights; not what a model has just made.
    kept = name == "multinomial" and owner not in NUMPYS and any(map(KEPT.search, weights))
    if kept or (name == "choice" and "p" in many) or (name == "choices" and "weights" in many):
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
    """`table[table["owner"] == user]`, `table.loc[table.owner == user, names]`.

    A table of a name alone may be an item's own: there, what lies above a threshold is no search.
    """
    rows = node.slice.elts[0] if isinstance(node.slice, ast.Tuple) and node.slice.elts else node.slice
    table = ast.unparse(node.value).removesuffix(".loc")
    searched = any(
        (each.by_value or _is_kept(node.value)) and each.is_search and _is_column(each.of, table)
        for each in _comparisons(rows)
    )
    return PassOverAll.COMPARES_ROWS if searched else _of_mask(rows)


def _is_column(node: ast.expr, table: str) -> bool:
    """Whether an expression is a column of a table, or what calls make of one."""
    while isinstance(node, (ast.Call, ast.Attribute, ast.Subscript)):
        if isinstance(node, ast.Call):
            if not isinstance(node.func, ast.Attribute):
                return False
            node = node.func
        elif (isinstance(node, ast.Attribute) or _is_name(node.slice)) and ast.unparse(node.value) == table:
            return True
        node = node.value
    return False


def _of_mask(node: ast.expr) -> PassOverAll | None:
    """What is compared, where a mask is made of what an object keeps; not of a batch or an item of it.

    The other side is a key, one of many: what all items share, such as a threshold, is none, and neither are
    values of an item. A lone attribute may be such a threshold itself: in an order nothing tells it apart.
    """
    for each in _comparisons(node):
        kept = _compared(each.of) if _is_kept(each.of) and each.is_search else None
        shared = any(isinstance(key, ast.Attribute) and _is_kept(key) for key in each.keys)
        if kept is not None and not shared and (each.by_value or kept is PassOverAll.COMPARES_ROWS):
            return kept
    return None


class _Comparison(NamedTuple):
    """One comparison of a mask, and whether it can be a search for what one key stands for."""

    of: ast.expr  # what stands first, or what a method is called on
    keys: Sequence[ast.expr]
    by_value: bool  # not by order

    @property
    def is_search(self) -> bool:
        return bool(self.keys) and all(map(_is_key, self.keys))


def _comparisons(node: ast.expr) -> Iterator[_Comparison]:
    """The comparisons of which a mask is put together."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, (ast.BitAnd, ast.BitOr)):
        yield from _comparisons(node.left)
        yield from _comparisons(node.right)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Invert):
        yield from _comparisons(node.operand)
    elif isinstance(node, ast.Compare) and isinstance(
        node.ops[0], (ast.Eq, ast.Lt, ast.LtE, ast.Gt, ast.GtE)
    ):
        yield _Comparison(node.left, node.comparators, isinstance(node.ops[0], ast.Eq))
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in COMPARED:
        by_value = node.func.attr not in ORDERED
        yield _Comparison(node.func.value, node.args, by_value)
        for values in node.args[:1]:  # `np.isin(values, wanted)`
            yield _Comparison(values, node.args[1:], by_value)


def _is_key(node: ast.expr) -> bool:
    """Whether something may be what one item is looked up by: no constant, and no array of the item's."""
    if isinstance(node, ast.Name):
        return not node.id.isupper()
    if isinstance(node, ast.Subscript):
        return not any(isinstance(inner, ast.Slice) for inner in ast.walk(node.slice))
    if isinstance(node, ast.BinOp):
        return _is_key(node.left) or _is_key(node.right)
    return isinstance(node, (ast.Attribute, ast.JoinedStr)) or (
        isinstance(node, ast.Call) and called_name(node) in TO_KEYS
    )


def _is_kept(node: ast.expr) -> bool:
    """Whether something belongs to the object whose method the line is in, as its data does."""
    while isinstance(node, (ast.Attribute, ast.Subscript, ast.Call)):
        node = node.func if isinstance(node, ast.Call) else node.value
    return isinstance(node, ast.Name) and node.id in SELVES


def _is_name(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def _compared(operand: ast.expr) -> PassOverAll | None:
    """What it is, where it is whole: a table's column, which calls leave so, or an array of an object's."""
    called = False
    while not isinstance(operand, ast.Attribute):
        if isinstance(operand, ast.Call) and isinstance(operand.func, ast.Attribute):
            called, operand = True, operand.func.value
        elif isinstance(operand, ast.Subscript) and isinstance(operand.slice, ast.Constant):
            if _is_name(operand.slice):
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
    """Whether items that an object keeps are gone through: by themselves, numbered, or a dictionary's."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        return node.func.attr in VIEWS and _held_items(node.func.value)
    if isinstance(node, ast.Call):
        return (
            isinstance(node.func, ast.Name) and node.func.id in NUMBERS and any(map(_held_items, node.args))
        )
    return isinstance(node, ast.Attribute) and _is_kept(node)
