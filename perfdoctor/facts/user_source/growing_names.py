"""Finds what a line works on that other lines make longer and longer, such as a list of all losses so far."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator

from perfdoctor.facts.user_source.origins import SELVES, parameters
from perfdoctor.facts.user_source.parse import Function, Listing, Sources, calls, header, statements
from perfdoctor.model.measured import Location

ADDING = frozenset("append appendleft extend add insert update setdefault push".split())
JOINING = frozenset("append cat concat concatenate extend hstack r_ row_stack stack vstack".split())
# What writes to a file all that it is handed ...
WRITING = frozenset(
    "dump dumps write writelines writerow writerows save savez savez_compressed savetxt save_file tofile "
    "to_csv to_json to_parquet to_pickle to_excel".split()
)
# ... unless that is one figure for all of it.
REDUCING = frozenset("mean nanmean average sum min max median std var norm quantile percentile len".split())
SHORTENING = frozenset("clear pop popitem popleft remove".split())
OF_OBJECT = tuple(f"{name}." for name in SELVES)
_Scope = ast.Module | ast.ClassDef | Function


def growing_name(
    sources: Sources, at: Location, anchors: Collection[tuple[str, int]] = ()
) -> tuple[str, Location] | None:
    """The name that the statement at a line reads and that grows, and the line that adds to it.

    The line itself counts where it makes a longer copy each time, not where it appends. What is made anew in
    a loop, or each time that a function runs, does not grow from step to step. `anchors`: the lines that
    training passes through, as (file, line).
    """
    listing = sources.file(at.file)
    node = listing.statement(at.line)
    if node is None:
        return None
    read = {name for part in header(node) for inner in ast.walk(part) if (name := written(inner)) is not None}
    for name, line in _grown(listing):
        if name not in read or (line == node.lineno and not isinstance(node, ast.Assign)):
            continue
        if _lasts(listing, name, (line, at.line), {number for file, number in anchors if file == at.file}):
            return name, sources.at(at.file, line, at.function)
    return None


def writes_all(sources: Sources, at: Location, name: str | None) -> bool:
    """Whether the statement at a line writes to a file, and all that a name stands for: no figure over it.

    Without a name, whether it writes to a file.
    """
    node = sources.file(at.file).statement(at.line)
    if node is None or not any(called in WRITING for _, called in calls(node)):
        return False
    parts = [part for top in header(node) for part in ast.walk(top)]
    reduced = (part for part in parts if _reduces(part))
    within = {id(inner) for part in reduced for inner in ast.walk(part) if written(inner) == name}
    return name is None or any(written(part) == name and id(part) not in within for part in parts)


def _reduces(node: ast.AST) -> bool:
    """Whether an expression is one figure over something, or a part of it: `history["loss"]` is all of it."""
    if isinstance(node, ast.Subscript):
        return not (isinstance(node.slice, ast.Constant) and isinstance(node.slice.value, str))
    function = node.func if isinstance(node, ast.Call) else None
    named = getattr(function, "attr", getattr(function, "id", None))
    return named in REDUCING


def written(node: ast.AST) -> str | None:
    """`total`, `self.total`, and of `history["loss"]` the name before the bracket."""
    while isinstance(node, ast.Subscript):
        node = node.value
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        owner = written(node.value)
        return None if owner is None else f"{owner}.{node.attr}"
    return None


def _grown(listing: Listing) -> Iterator[tuple[str, int]]:
    """Names that statements of a file make longer, with the lines."""
    for node in ast.walk(listing.tree) if listing.tree is not None else ():
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            function = node.value.func
            name = written(function.value) if isinstance(function, ast.Attribute) else None
            if isinstance(function, ast.Attribute) and function.attr in ADDING and name is not None:
                yield name, node.lineno
        elif isinstance(node, ast.AugAssign) and isinstance(node.value, (ast.List, ast.ListComp)):
            if (name := written(node.target)) is not None:
                yield name, node.lineno
        elif isinstance(node, ast.Assign) and _joins(node.value):
            parts = {name for inner in ast.walk(node.value) if (name := written(inner)) is not None}
            for target in node.targets:
                if (name := written(target)) in parts and name is not None:
                    yield name, node.lineno


def _joins(value: ast.expr) -> bool:
    """Whether a value is put together from others: `torch.cat([bank, keys])`, `seen + [loss]`."""
    if isinstance(value, ast.BinOp):
        return isinstance(value.op, ast.Add) and isinstance(value.right, (ast.List, ast.ListComp))
    if not isinstance(value, ast.Call):
        return False
    called = value.func.attr if isinstance(value.func, ast.Attribute) else getattr(value.func, "id", None)
    return called in JOINING


# ---------------------------------------------------------------- what lasts from step to step


def _lasts(listing: Listing, name: str, lines: tuple[int, int], anchors: Collection[int]) -> bool:
    """Whether lines mean the same by a name, and nothing makes it anew or shorter while training goes on."""
    owner, other = (_owner(listing, name, line) for line in lines)
    if owner is None or owner is not other:
        return False
    nodes = [node for node in ast.walk(owner) if isinstance(node, ast.stmt) and _mentions(node, name)]
    nodes = [node for node in nodes if _owner(listing, name, node.lineno) is owner]
    made = [node.lineno for node in nodes if _makes(node, name)]
    if any(_shortens(node, name) for node in nodes) or any(map(listing.outermost_loop, made)):
        return False
    scopes = [listing.scope(line) for line in lines]
    made_in = [listing.scope(line) for line in made]
    if any(
        isinstance(scope, Function) and scope.name != "__init__" for scope in made_in if scope not in scopes
    ):
        return False  # as at the begin of each epoch
    once = [
        {line for line, scope in zip(lines, scopes, strict=True) if scope is each}
        for each in scopes
        if each is listing.tree or each in made_in
    ]
    return all(_are_in_training(listing, together, anchors) for together in once)


def _are_in_training(listing: Listing, lines: Collection[int], anchors: Collection[int]) -> bool:
    """Whether lines of one function are in one loop, and training in it."""
    spans = (range(loop.lineno, (loop.end_lineno or 0) + 1) for loop in listing.loops(min(lines)))
    return any(max(lines) in span and any(line in span for line in anchors) for span in spans)


def _owner(listing: Listing, name: str, line: int) -> _Scope | None:
    """What a name belongs to at a line: the class of `self.name`, a function that sets it, or the module."""
    first, kind = name.partition(".")[0], ast.ClassDef if name.startswith(OF_OBJECT) else Function
    around = [
        scope
        for scope in (ast.walk(listing.tree) if listing.tree is not None else ())
        if isinstance(scope, kind)
        and scope.body[0].lineno <= line <= (scope.end_lineno or 0)
        and (isinstance(scope, ast.ClassDef) or first in _locals(scope))
    ]
    return max(around, key=lambda scope: scope.lineno, default=listing.tree)


def _locals(function: Function) -> set[str]:
    """The names of a function's own, parameters among them."""
    nodes = list(statements(function.body))
    parts = [inner for node in nodes for part in header(node) for inner in ast.walk(part)]
    stored = {inner.id for inner in parts if isinstance(inner, ast.Name) and isinstance(inner.ctx, ast.Store)}
    outer = {name for node in nodes if isinstance(node, (ast.Global, ast.Nonlocal)) for name in node.names}
    return (stored - outer) | set(parameters(function))


def _mentions(node: ast.AST, name: str) -> bool:
    """Whether a statement's own lines, or an expression, have a name in them."""
    parts = header(node) if isinstance(node, ast.stmt) else [node]
    return any(written(inner) == name for part in parts for inner in ast.walk(part))


def _makes(node: ast.stmt, name: str) -> bool:
    """Whether a statement sets a name to what is not made from it."""
    value = getattr(node, "value", None)
    stored = (
        inner
        for part in header(node)
        for inner in ast.walk(part)
        if isinstance(inner, (ast.Name, ast.Attribute)) and isinstance(inner.ctx, ast.Store)
    )
    if isinstance(node, ast.AugAssign) or (isinstance(value, ast.AST) and _mentions(value, name)):
        return False
    return any(written(inner) == name for inner in stored)


def _shortens(node: ast.stmt, name: str) -> bool:
    """Whether a statement takes something out of what a name stands for, or makes it of a bounded length."""
    parts = [inner for part in header(node) for inner in ast.walk(part)]
    calls = [inner for inner in parts if isinstance(inner, ast.Call)]
    if isinstance(node, ast.Delete):
        return True
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    if any(target is not None and written(target) == name for target in targets):
        cut = (
            inner
            for inner in parts
            if isinstance(inner, ast.Subscript) and isinstance(inner.slice, ast.Slice)
        )
        bounded = any(word.arg == "maxlen" for call in calls for word in call.keywords)
        return bounded or any(_mentions(inner, name) for inner in cut)
    return any(
        isinstance(call.func, ast.Attribute)
        and call.func.attr in SHORTENING
        and written(call.func.value) == name
        for call in calls
    )
