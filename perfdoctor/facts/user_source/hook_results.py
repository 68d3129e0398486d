"""Tells what becomes of the results of a line in a function that the training loop calls by no name.

A trainer calls its hooks and callbacks one after the other: its source does not show which, nor whether the
update depends on them. Such a function can be read by itself. What a line of it computes is only reported
where it reaches nothing but prints and logs: it is not returned, changes no argument, and if it is kept in an
attribute, then all who read that do no more with it either.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable

from perfdoctor.facts.user_source.effects import Effects, EffectsFinder
from perfdoctor.facts.user_source.origins import SELVES, FunctionNode, SourceFile, dotted, parameters
from perfdoctor.facts.user_source.parse import Function, Sources, covers, statements
from perfdoctor.facts.user_source.project import project_files
from perfdoctor.facts.user_source.scoped_names import scoped
from perfdoctor.facts.user_source.update_dependence import modules_of
from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.measured import Location

LEAVES = (ast.Return, ast.Raise, ast.Assert, ast.Break, ast.Continue)
# Bases that are no class of the user's, and read no attribute that a class below them has made up.
PLAIN_BASES = frozenset(("object", "ABC", "Protocol"))
HOOKS = ("Callback", "Hook")  # likewise, by the end of their names


@dataclass(frozen=True)
class HookResult:
    """What a line of a hook computes is only reported."""

    test: str | None = None  # of the `if`, every so many steps, below which alone it is read


def hook_result(sources: Sources, at: Location, files: Iterable[str]) -> HookResult | None:
    """What becomes of the results of a line; None where the source does not show that it is only reports.

    `files`: of the user's, from which all that may read an attribute are found by their imports.
    """
    listing = scoped(sources.file(at.file))
    function = listing.scope(at.line)
    if not isinstance(function, Function):
        return None
    finder = EffectsFinder(listing, modules_of(sources, at.file))
    nodes = list(statements(function.body))
    line = [node for node in nodes if covers(node, at.line)]
    effects = {node: finder.of_statement(node) for node in nodes}
    if not line or any(hasattr(node, "body") or _acts(node, effects[node]) for node in line):
        return None
    names, readers = _reached(line, nodes, effects)
    local = {name for each in effects.values() for name in each.binds if "." not in name}
    attributes = {name.partition(".")[2] for name in names if name.startswith("self.")}
    beyond = {name for name in names if not name.startswith("self.")} - local | names & set(
        parameters(function)
    )
    declared = any(isinstance(node, (ast.Global, ast.Nonlocal)) for node in nodes)
    if beyond or declared or any(_acts(node, effects[node]) for node in readers):
        return None
    if attributes and _read_elsewhere(sources, [*files, at.file], finder, function, attributes):
        return None
    return HookResult(_every_so_often(line, readers, nodes))


def _acts(node: ast.stmt, effects: Effects) -> bool:
    """Whether a statement does more than compute and report."""
    unseen = effects.trains or effects.unknown or effects.forwards or bool(effects.modes)
    return unseen or isinstance(node, LEAVES)


def _reached(
    line: Iterable[ast.stmt], nodes: list[ast.stmt], effects: dict[ast.stmt, Effects]
) -> tuple[set[str], list[ast.stmt]]:
    """The names that hold something of a line's results, and the other statements that read or hang on it."""
    reached = list(line)
    names = {name for node in reached for name in effects[node].binds | effects[node].changes}
    before = -1
    while before != len(reached):
        before = len(reached)
        for node in nodes:
            if node not in reached and effects[node].needs & names:
                reached += [one for one in statements([node]) if one in effects and one not in reached]
        names |= {name for node in reached for name in effects[node].binds | effects[node].changes}
    return names, [node for node in reached if node not in line]


def _every_so_often(line: list[ast.stmt], readers: list[ast.stmt], nodes: list[ast.stmt]) -> str | None:
    """The test of an `if` with a remainder, behind the line, below which all readers lie."""
    for node in nodes:
        if not isinstance(node, ast.If) or node.orelse or node in readers or node.lineno <= line[-1].lineno:
            continue
        below = list(statements(node.body))
        counts = any(isinstance(part, ast.Mod) for part in ast.walk(node.test))
        if counts and readers and all(reader in below for reader in readers):
            return ast.unparse(node.test)
    return None


# ---------------------------------------------------------------- attributes


def _read_elsewhere(
    sources: Sources,
    files: Iterable[str],
    finder: EffectsFinder,
    function: FunctionNode,
    attributes: set[str],
) -> bool:
    """Whether attributes of the object may be read by others, other than to report them."""
    owner = next((one for one in finder.file.classes.values() if function in one.body), None)
    if owner is None:
        return True
    family = _family(finder, owner)
    own = {f"self.{name}" for name in attributes}
    others = (
        (theirs, method)
        for theirs, kind in family or ()
        for method in kind.body
        if isinstance(method, Function) and method is not function
    )
    if family is None or any(_uses(theirs, method, own) for theirs, method in others):
        return True
    project = (SourceFile(sources.file(path)) for path in project_files(files, sources))
    return any(_reads(file, attributes, owner.name) for file in project)


def _uses(finder: EffectsFinder, method: FunctionNode, own: set[str]) -> bool:
    """Whether a method does more with attributes than to report them."""
    for node in statements(method.body):
        effects = finder.of_statement(node)
        decides = isinstance(node, (ast.Return, ast.If, ast.While))
        if effects.needs & own and (effects.binds or effects.changes or _acts(node, effects) or decides):
            return True
    return False


def _family(finder: EffectsFinder, owner: ast.ClassDef) -> list[tuple[EffectsFinder, ast.ClassDef]] | None:
    """A class with all that it inherits from; None where nothing is known of a base."""
    found = [(finder, owner)]
    for theirs, kind in found:  # which grows meanwhile
        for base in kind.bases:
            name = dotted(base).rpartition(".")[2]
            there, inherited = theirs.class_of(name)
            if inherited is None and name not in PLAIN_BASES and not name.endswith(HOOKS):
                return None
            if inherited is not None and all(inherited is not each for _, each in found):
                found.append((there, inherited))
    return found


def _reads(file: SourceFile, attributes: set[str], owner: str) -> bool:
    """Whether a file reads attributes of these names of any object, or has a class that inherits them."""
    inherited = {dotted(base).rpartition(".")[2] for kind in file.classes.values() for base in kind.bases}
    loaded = (node for node in file.nodes if isinstance(node, ast.Attribute) and node.attr in attributes)
    read = (node for node in loaded if isinstance(node.ctx, ast.Load) and dotted(node.value) not in SELVES)
    if owner in inherited or any(read):
        return True
    named = (node.args[1] for node in file.calls if dotted(node.func) == "getattr" and len(node.args) > 1)
    return any(isinstance(node, ast.Constant) and node.value in attributes for node in named)
