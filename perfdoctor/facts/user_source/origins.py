"""Follows the names of one of the user's files: which objects train, and where each object comes from.

Within one file, and by name only: two variables of one name count as one. An attribute counts as the object
that it belongs to, but for those of `self`.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Set
from functools import cached_property
from itertools import permutations
from typing import TypeVar

from perfdoctor.facts.user_source import known_calls as known
from perfdoctor.facts.user_source.parse import Function, Listing

SELVES = frozenset({"self", "cls"})
FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef
Node = TypeVar("Node", bound=ast.AST)
_LITERALS = (ast.List, ast.Dict, ast.Set, ast.ListComp, ast.DictComp, ast.SetComp)


def base_name(node: ast.expr) -> str | None:
    """The name that an expression hangs on: `rows` of `rows[i].x`, `self.rows` of `self.rows[i].x`."""
    outer: ast.expr | None = None
    while isinstance(node, (ast.Attribute, ast.Subscript, ast.Starred)):
        outer, node = node, node.value
    if not isinstance(node, ast.Name):
        return None
    if node.id in SELVES and isinstance(outer, ast.Attribute):
        return f"self.{outer.attr}"
    return node.id


def called_name(call: ast.Call) -> str:
    """The last name of what is called, or nothing."""
    if isinstance(call.func, ast.Attribute):
        return call.func.attr
    return call.func.id if isinstance(call.func, ast.Name) else ""


class SourceFile:
    """The functions, classes and names of one parsed file, and what each statement of it can change.

    What it finds it keeps, so all ask the same one of a listing: `listing.once(SourceFile)`.
    """

    def __init__(self, listing: Listing) -> None:
        self.listing = listing
        self.nodes = list(ast.walk(listing.tree)) if listing.tree is not None else []
        self.functions: dict[str, list[FunctionNode]] = {}
        self.classes: dict[str, ast.ClassDef] = {}
        self.imports: dict[str, str] = {}  # modules by their dotted names, too; `module.*` for all of one
        self.calls = [node for node in self.nodes if isinstance(node, ast.Call)]
        for node in self.nodes:
            self._enter(node)
        self._running: list[FunctionNode] = []
        self._cuts = 0  # how often a function was met that was running
        self._known: dict[tuple[ast.AST, bool], Set[str]] = {}
        self._held: dict[tuple[str, bool], Set[str]] = {}

    def _enter(self, node: ast.AST) -> None:
        if isinstance(node, Function):
            self.functions.setdefault(node.name, []).append(node)
        elif isinstance(node, ast.ClassDef):
            self.classes[node.name] = node
        elif isinstance(node, ast.Import):
            self.imports.update((name.asname or name.name, name.name) for name in node.names)
            firsts = (name.name.partition(".")[0] for name in node.names if not name.asname)
            self.imports.update((first, first) for first in firsts)  # `import a.b` binds `a`
        elif isinstance(node, ast.ImportFrom):
            module = "." * node.level + (f"{node.module}." if node.module else "")
            for name in node.names:
                full = f"{module}{name.name}"
                self.imports[full if name.name == "*" else name.asname or name.name] = full

    # ------------------------------------------------------------ where objects come from

    @cached_property
    def origins(self) -> dict[str, list[ast.expr]]:
        """The expressions that each name is set to, wherever in the file; arguments set parameters."""
        origins = _assigned(self.nodes)
        for call in self.calls:
            for name, value in self._arguments(call):
                origins[name].append(value)
        return dict(origins)

    def _arguments(self, call: ast.Call) -> Iterator[tuple[str, ast.expr]]:
        """Parameters of the file's functions with what a call gives them."""
        owner = self.classes.get(called_name(call))
        functions = methods(owner, "__init__") if owner else self.functions.get(called_name(call), [])
        for function in functions:
            yield from bound(function, call)

    @cached_property
    def training(self) -> frozenset[str]:
        """Names of models, optimizers and whatever is built on them, or holds them."""
        names = set(self._seeds())
        grew = True
        while grew:
            reached = {
                name
                for name, values in self.origins.items()
                if any(self.refers(value) & names or self.makes_module(value) for value in values)
            }
            grew = not reached <= names
            names |= reached
        return frozenset(names)

    def _seeds(self) -> Iterator[str]:
        marks = {"step", "zero_grad", "parameters", "named_parameters", "load_state_dict", *known.MODE_CALLS}
        called = {id(call.func) for call in self.calls}
        for node in self.nodes:
            if isinstance(node, ast.Attribute) and node.attr == "step" and id(node) not in called:
                continue  # a count of steps
            if isinstance(node, ast.Attribute) and node.attr in marks | {"param_groups"}:
                name = base_name(node.value)
                if name and name not in SELVES and name not in self.imports:
                    yield name

    def makes_module(self, value: ast.expr) -> bool:
        """Whether an expression builds a module of this file, or an optimizer."""
        if not isinstance(value, ast.Call):
            return False
        owner = self.classes.get(called_name(value))
        if owner is not None and any(dotted(base).endswith("Module") for base in owner.bases):
            return True
        return self.full_name(value.func).startswith("torch.optim.")

    def refers(self, node: ast.expr) -> Set[str]:
        """The names of objects that the value of an expression may be, or may hold."""
        return self._once(node, self._refers)

    def _once(self, node: Node, find: Callable[[Node], Set[str]]) -> Set[str]:
        """The names found for a node, kept where they do not depend on the functions that are running."""
        key, cuts = (node, bool(self._running)), self._cuts
        if key in self._known:
            return self._known[key]
        found = find(node)
        if not self._running or cuts == self._cuts:
            self._known[key] = found
        return found

    def _refers(self, node: ast.expr) -> Set[str]:
        if isinstance(node, (ast.Name, ast.Attribute, ast.Subscript, ast.Starred)):
            name = base_name(node)
            inner = node.value if not isinstance(node, ast.Name) else None
            return {name} if name else (self.refers(inner) if inner is not None else set())
        if isinstance(node, ast.Call):
            return self._call_refers(node)
        if isinstance(node, (ast.GeneratorExp, ast.ListComp, ast.SetComp)):
            iters = (self.refers(part.iter) for part in node.generators)
            return set().union(self.refers(node.elt), *iters)
        if isinstance(node, (ast.IfExp, ast.BoolOp, ast.Tuple, ast.List, ast.Set, ast.Dict, ast.NamedExpr)):
            parts = [part for part in ast.iter_child_nodes(node) if isinstance(part, ast.expr)]
            return set().union(*(self.refers(part) for part in parts))
        return set()

    def _call_refers(self, call: ast.Call) -> Set[str]:
        name = called_name(call)
        own = self.functions.get(name, []) if isinstance(call.func, ast.Name) else []
        if own:
            given = [(dict(bound(function, call)), self._once(function, self._returned)) for function in own]
            return set().union(
                *(
                    self.refers(values[one]) if one in values else {one}
                    for values, names in given
                    for one in names
                )
            )
        if isinstance(call.func, ast.Attribute) and not self.module(call.func):
            if name in known.REFERENCES:
                return self.refers(call.func.value)
            if name in known.PURE_METHODS:
                return set()
        holds = {
            "list",
            "dict",
            "set",
            "tuple",
            "zip",
            "enumerate",
            "iter",
            "reversed",
            "sorted",
            "filter",
            "map",
        }
        computes = name in known.PURE_BUILTINS - holds and isinstance(call.func, ast.Name)
        if computes or (self.is_pure_function(call) and not name[:1].isupper() and "copy" not in name):
            return set()
        values = [*call.args, *(keyword.value for keyword in call.keywords)]
        return set().union(*(self.refers(value) for value in values))

    def _returned(self, function: FunctionNode) -> Set[str]:
        """The parameters and other outer names that a function's result may be, or may hold."""
        if function in self._running:
            self._cuts += 1
            return set(parameters(function))
        self._running.append(function)
        nodes = list(ast.walk(function))
        inner = _assigned(nodes)
        names: set[str] = set()
        reached = set().union(
            *(self.refers(node.value) for node in nodes if isinstance(node, ast.Return) and node.value)
        )
        while not reached <= names:
            names |= reached
            reached = set().union(*(self.refers(value) for name in names for value in inner.get(name, ())))
        self._running.pop()
        return {name for name in names if name not in inner or name in parameters(function)}

    def is_plain(self, name: str) -> bool:
        """Whether all that a name is set to was built in this file from nothing that trains."""
        names = {name}
        pending = [name]
        while pending:
            one = pending.pop()
            if one in self.training or not self.origins.get(one):
                return False
            reached = {other for value in self.origins[one] for other in self.refers(value)}
            new = reached - names - self.imports.keys() - self.functions.keys()
            names |= new
            pending += new
        return True

    def aliases(self, name: str, items: bool = False) -> Set[str]:
        """The name, and the names of the objects that it may stand for; with `items`, that it may hold."""
        if (name, items) not in self._held:
            names = {name}
            pending = [name]
            while pending:
                values = self.origins.get(pending.pop(), ())
                reached = {other for value in values for other in self._same(value, items)} - names
                names |= reached
                pending += reached
            self._held[name, items] = names
        return self._held[name, items]

    def _same(self, value: ast.expr, items: bool) -> Set[str]:
        """The names that a value may be part of: of what a constructor was given, nothing is."""
        if isinstance(value, ast.Call) and called_name(value)[:1].isupper():
            return set()
        return set() if isinstance(value, _LITERALS) and not items else self.refers(value)

    # ------------------------------------------------------------ what is called

    def full_name(self, func: ast.expr) -> str:
        """`torch.nn.functional.relu` for `F.relu`; the text as written where no import explains it."""
        first, _, rest = dotted(func).partition(".")
        first = self.imports.get(first) or known.USUAL_ALIASES.get(first, first)
        return f"{first}.{rest}" if rest else first

    def imported_from(self, name: str) -> Iterator[tuple[str, str]]:
        """The modules that a dotted name of this file may come from, each with what it is called there."""
        first, _, rest = name.partition(".")
        if first in self.imports:
            yield _parted(f"{self.imports[first]}.{rest}" if rest else self.imports[first])
        elif not rest:
            alls = (full for full in self.imports.values() if full.endswith(".*"))
            yield from ((_parted(full)[0], name) for full in alls)

    def module(self, func: ast.expr) -> str | None:
        """The library that a function belongs to, or None for a method and for the user's own."""
        first = dotted(func).partition(".")[0]
        if first in self.origins and first not in self.imports:
            return None
        root = self.full_name(func).split(".")[0]
        return root if first in self.imports or root in known.PURE_MODULES else None

    def is_pure_function(self, call: ast.Call) -> bool:
        """Whether a call is of a library's function that changes nothing of the caller's."""
        if self.module(call.func) not in known.PURE_MODULES:
            return False
        parts = self.full_name(call.func).split(".")
        if parts[-1] in known.READING_PARTS:
            return True
        impure = known.IMPURE_PARTS.intersection(parts) or parts[-1].startswith(known.IMPURE_STARTS)
        return (
            not impure
            and not parts[-1].endswith("_")
            and not any(word.arg in {"out", "inplace"} for word in call.keywords)
        )

    def written(self, call: ast.Call) -> list[ast.expr]:
        """The arguments of a library's function that it writes its result to."""
        name = called_name(call)
        if name in known.WRITING_FUNCTIONS:
            return call.args[:1]
        inputs = known.UFUNC_INPUTS.get(name) if self.module(call.func) == "numpy" else None
        return call.args[inputs:] if inputs is not None else []

    def is_container(self, name: str) -> bool:
        """Whether a name is only ever set to built-in containers."""
        return all(
            isinstance(value, _LITERALS)
            or (isinstance(value, ast.Call) and called_name(value) in known.CONTAINERS)
            for value in self.origins.get(name, ())
        )


def _parted(full: str) -> tuple[str, str]:
    """A module and a name in it: `lib.engine` and `fit`, `..` and `fit`."""
    name = full.rpartition(".")[2]
    module = full.removesuffix(name)
    return module[:-1] if module.strip(".") else module, name


def methods(owner: ast.ClassDef | None, name: str) -> list[FunctionNode]:
    """The methods of that name in a class's own body."""
    body = owner.body if owner is not None else []
    return [node for node in body if isinstance(node, Function) and node.name == name]


def parameters(function: FunctionNode | ast.Lambda) -> list[str]:
    """The names of a function's parameters, those of the object and the class left out."""
    given = function.args
    names = [one.arg for one in (*given.posonlyargs, *given.args, *given.kwonlyargs)]
    names += [one.arg for one in (given.vararg, given.kwarg) if one is not None]
    return [name for name in names if name not in SELVES]


def bound(function: FunctionNode, call: ast.Call) -> Iterator[tuple[str, ast.expr]]:
    """The parameters of a function with what a call gives them."""
    names = parameters(function)
    yield from zip(names, call.args, strict=False)
    yield from (
        (word.arg, word.value) for word in call.keywords if word.arg in names and word.arg is not None
    )


def _assigned(nodes: Iterable[ast.AST]) -> dict[str, list[ast.expr]]:
    """The expressions that these nodes set each name to."""
    origins: dict[str, list[ast.expr]] = defaultdict(list)
    for node in nodes:
        if isinstance(node, ast.Assign):
            pairs = [pair for target in node.targets for pair in _pairs(target, node.value)]
            if not isinstance(node.value, ast.Constant):  # `a = b = []`: one object
                same = [target for target in node.targets if isinstance(target, ast.Name | ast.Attribute)]
                pairs += [pair for one, other in permutations(same, 2) for pair in _pairs(one, other)]
        elif isinstance(node, (ast.AnnAssign, ast.NamedExpr)) and node.value is not None:
            pairs = _pairs(node.target, node.value)
        elif isinstance(node, (ast.For, ast.AsyncFor, ast.comprehension)):
            items = node.iter.elts if isinstance(node.iter, (ast.Tuple, ast.List)) else [node.iter]
            pairs = [pair for item in items for pair in _pairs(node.target, item)]
        elif isinstance(node, ast.withitem) and node.optional_vars is not None:
            pairs = _pairs(node.optional_vars, node.context_expr)
        else:
            continue
        for name, value in pairs:
            origins[name].append(value)
    return origins


def _pairs(target: ast.expr, value: ast.expr) -> list[tuple[str, ast.expr]]:
    """The names that an assignment sets, with the value or the part of it that each gets."""
    if isinstance(target, (ast.Tuple, ast.List)):
        same = isinstance(value, (ast.Tuple, ast.List)) and len(value.elts) == len(target.elts)
        values = (
            value.elts if same and isinstance(value, (ast.Tuple, ast.List)) else [value] * len(target.elts)
        )
        return [pair for one, part in zip(target.elts, values, strict=True) for pair in _pairs(one, part)]
    if isinstance(target, ast.Subscript):
        return []
    if isinstance(target, ast.Attribute) and not (
        isinstance(target.value, ast.Name) and target.value.id in SELVES
    ):
        return []
    name = base_name(target)
    return [(name, value)] if name else []


def dotted(node: ast.expr) -> str:
    """`a.b.c` for a chain of attributes; what is called within it is left out."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        return f"{dotted(node.value)}.{node.attr}"
    return dotted(node.func) if isinstance(node, ast.Call) else ""
