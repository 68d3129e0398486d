"""Finds the exact line of what a window puts down to a function: it names the line of the `def` only.

A function's source says which of its statements can have made a call, such as `.item()` for `aten::item`;
stack samples say how its time is shared out where there are several.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable
from dataclasses import replace
from functools import cached_property

from perfdoctor.facts.device.device import COPYING, AttentionFacts, CopyFacts, KernelFacts, WaitFacts
from perfdoctor.facts.registry import fact
from perfdoctor.facts.user_source.parse import Function, Listing, Sources, calls, header, names_in, statements
from perfdoctor.model.measured import Location, RunFacts, StackFacts
from perfdoctor.model.missing import Missing
from perfdoctor.trace.results import BlockingCalls

VALUE = frozenset("item tolist float int bool print format str".split())  # what reads one value, or prints it
BUILT_IN = frozenset("float int bool print str".split())  # functions: methods of these names read nothing
OUT = VALUE | frozenset("cpu numpy to copy_".split())
IN = frozenset("to cuda copy_ tensor as_tensor".split())
# Operator around a runtime call: names of what a statement calls to get there.
CALLED = {
    None: frozenset(("synchronize",)),
    "aten::item": VALUE, "aten::_local_scalar_dense": VALUE, "aten::is_nonzero": VALUE,
    "aten::equal": frozenset(("equal",)), "aten::nonzero": frozenset("nonzero argwhere where".split()),
    "aten::masked_select": frozenset(("masked_select",)), "aten::_unique2": frozenset(("unique",)),
    "aten::softmax": frozenset(("softmax", "Softmax")),
    "aten::bmm": frozenset("bmm matmul einsum".split()),
    "aten::baddbmm": frozenset(("baddbmm",)),
    "aten::mm": frozenset("mm matmul einsum linear".split()),
    "aten::addmm": frozenset("addmm linear".split()),
}  # fmt: skip
MULTIPLY = ("aten::bmm", "aten::mm")  # `a @ b`
# Modules multiply so as well, in forward and backward, and where one is called does not show what it does.
OF_MODULES = ("aten::mm", "aten::addmm")
MODULES = frozenset(("Linear", "parameters"))  # names in a source that makes or trains any
READS_TESTS = ("aten::is_nonzero",)  # `if tensor:`
# A mask in brackets: how many does it hold?
READS_MASKS = (
    "aten::index",
    "aten::index_put_",
    "aten::nonzero",
)
MODULE = "<module>"  # the function that a module's own lines belong to
TESTS = (ast.If, ast.While, ast.Assert)
LOOPS = (ast.For, ast.AsyncFor, ast.While)

Shares = list[tuple[Location, float]]


class LineFinder:
    """Finds lines in the user's source; stack samples weigh them."""

    def __init__(self, sources: Sources, run: RunFacts, stacks: StackFacts | None) -> None:
        self.sources = sources
        costs = [cost for lines in (stacks.phases.values() if stacks else ()) for cost in lines]
        self.sampled = [cost.at for cost in costs]
        self.samples = {(cost.at.file, cost.at.line): cost.samples for cost in costs}
        scripts = [f"{run.cwd}/{word}" for word in run.command if word.endswith(".py")]
        self.folders = [f"{run.cwd}/", *(f"{script.rpartition('/')[0]}/" for script in scripts)]
        self.scripts = scripts
        self.files: dict[str, str] = {}

    def of(self, at: Location, op: str | None, direction: str | None = None) -> Shares:
        """The lines that a call at `at` can come from and the share of it that each has; [] where unknown."""
        file = self._file(at.file)
        if not file:
            return []
        scope = _scope(self.sources.file(file), at)
        numbers = [node.lineno for node in _repeated(scope) if makes(node, op, direction)] if scope else []
        if at.line in numbers:  # the line itself was recorded
            numbers = [at.line]
        return self._shared([replace(at, file=file, line=line) for line in dict.fromkeys(numbers)])

    def anywhere(self, op: str | None, direction: str | None = None) -> Shares:
        """The same, of a call whose function is not known either: the sampled lines that can make it."""
        if op in OF_MODULES and self._has_modules:
            return []
        statement = [(at, self.sources.file(at.file).statement(at.line)) for at in self.sampled]
        return self._shared([at for at, node in statement if node is not None and makes(node, op, direction)])

    @cached_property
    def _has_modules(self) -> bool:
        """Whether what was sampled, or the script, makes or trains modules."""
        files = dict.fromkeys([*(at.file for at in self.sampled), *self.scripts])
        trees = (self.sources.file(name).tree for name in files)
        return any(tree is not None and not MODULES.isdisjoint(names_in(tree)) for tree in trees)

    def _shared(self, places: Iterable[Location]) -> Shares:
        """A single place has it all; several share it as they were sampled."""
        weighed = [(at, self.samples.get((at.file, at.line), 0)) for at in places]
        total = sum(weight for _, weight in weighed)
        if len(weighed) > 1 and not total:
            return []
        return [
            (self.sources.at(at.file, at.line, at.function), weight / total if total else 1.0)
            for at, weight in weighed
            if weight or not total
        ]

    def _file(self, name: str) -> str:
        """The path of a file that the profiler names without its folder; "" where it cannot be found."""
        if name not in self.files:
            # by its folder first: so its lines are the sampled ones, though the name alone may do, too
            sampled = [at.file for at in self.sampled if at.file.endswith(f"/{name}")]
            tried = [*sampled, *(folder + name for folder in self.folders), name]
            self.files[name] = next((path for path in tried if self.sources.text(path, 1) is not None), "")
        return self.files[name]


@fact
def line_finder(sources: Sources, run: RunFacts, stacks: StackFacts | Missing) -> LineFinder:
    """The one for this run's source."""
    return LineFinder(sources, run, stacks if isinstance(stacks, StackFacts) else None)


def of_waits(waits: WaitFacts, lines: LineFinder) -> WaitFacts:
    """The calls by exact lines, where those can be told."""
    known = any(call.at is not None for call in waits.calls)
    return replace(waits, calls=tuple(part for call in waits.calls for part in _parts(call, lines, known)))


def of_attention(attention: AttentionFacts, lines: LineFinder) -> AttentionFacts:
    """The places as exact lines, where those can be told."""
    found = (_first(at, lines.of(at, "aten::softmax")) for at in attention.at)
    places = [at for at in found if at is not None]
    places = places or [at for at, _ in lines.anywhere("aten::softmax")]
    return replace(attention, at=tuple(dict.fromkeys(places)))


def of_kernels(kernels: KernelFacts, lines: LineFinder) -> KernelFacts:
    """The kernels by exact lines, where those can be told. Where some have a place, others are gradients'."""
    known = any(use.at is not None for use in kernels.kernels)

    def exact(at: Location | None, op: str | None) -> Location | None:
        if op is None or (at is None and known):
            return _first(at, [])
        return _first(at, lines.of(at, op) if at is not None else lines.anywhere(op))

    uses = tuple(replace(use, at=exact(use.at, use.op)) for use in kernels.kernels)
    return replace(kernels, kernels=uses)


def _parts(call: BlockingCalls, lines: LineFinder, known: bool) -> list[BlockingCalls]:
    """A blocking call by its lines. Where a window tells functions, one without any was no user's call."""
    if call.at is None:
        shares = [] if known else lines.anywhere(call.op, call.direction)
    else:
        shares = lines.of(call.at, call.op, call.direction)
        call = replace(call, at=_first(call.at, []))
    return [part_of(call, at, share) for at, share in shares] or [call]


def part_of(call: BlockingCalls, at: Location | None, share: float) -> BlockingCalls:
    """The share of a blocking call that was made at one place."""
    count = max(1, round(call.count * share))
    return replace(call, at=at, count=count, us=call.us * share, idle_us=call.idle_us * share)


def of_copies(copies: CopyFacts, lines: LineFinder) -> CopyFacts:
    """The places as exact lines, where those can be told."""

    def exact(at: Location | None, op: str | None, direction: str) -> Location | None:
        return _first(at, lines.of(at, op, direction)) if at is not None else None

    places = [place for at in copies.at if (place := exact(at, COPYING[0], "HtoD")) is not None]
    sites = [replace(site, at=exact(site.at, site.op, site.direction)) for site in copies.sites]
    round_trips = [
        replace(
            trip, out_at=exact(trip.out_at, trip.out, "DtoH"), back_at=exact(trip.back_at, trip.back, "HtoD")
        )
        for trip in copies.round_trips.trips
    ]
    trips = replace(copies.round_trips, trips=tuple(round_trips))
    return replace(copies, at=tuple(dict.fromkeys(places)), sites=tuple(sites), round_trips=trips)


def _first(at: Location | None, shares: Shares) -> Location | None:
    """The line with the largest share; where none is known, the function's, but no module's.

    A module runs since before the window: its line there is where it was when that opened.
    """
    otherwise = None if at is None or at.function == MODULE else at
    return max(shares, key=lambda entry: entry[1])[0] if shares else otherwise


def makes(node: ast.stmt, op: str | None, direction: str | None = None) -> bool:
    """Whether a statement can make the runtime call of an operator, or a copy in that direction."""
    wanted = CALLED.get(op, frozenset())
    if op in COPYING:
        wanted = OUT if direction == "DtoH" else IN
    inner = [part for top in header(node) for part in ast.walk(top)]
    return (
        any(name in wanted and not (owner and name in BUILT_IN) for owner, name in calls(node))
        or ("format" in wanted and any(isinstance(part, ast.FormattedValue) for part in inner))
        or (op in READS_TESTS and isinstance(node, TESTS))
        or (op in MULTIPLY and any(isinstance(part, ast.MatMult) for part in inner))
        or (
            op in READS_MASKS
            and any(isinstance(part, ast.Subscript) and _is_mask(part.slice) for part in inner)
        )
    )


def _repeated(scope: ast.Module | Function) -> list[ast.stmt]:
    """The statements of a function; of a module, which makes many steps, those in its loops."""
    looping = [node for node in statements(scope.body) if isinstance(node, LOOPS)]
    if isinstance(scope, ast.Module) and looping:
        return [node for loop in looping for node in statements(loop.body)]
    return list(statements(scope.body))


def _is_mask(index: ast.expr) -> bool:
    """Whether what stands in brackets may be a mask: a name or a comparison, no number, text or slice."""
    return isinstance(index, (ast.Name, ast.Attribute, ast.Compare, ast.UnaryOp, ast.BinOp, ast.Call))


def _scope(listing: Listing, at: Location) -> ast.Module | Function | None:
    """The function whose first line, decorators included, is that of `at`; else the innermost around it."""
    name = (at.function or "").rpartition(".")[2]
    for node in ast.walk(listing.tree) if listing.tree else ():
        if not isinstance(node, Function) or node.name != name:
            continue
        if at.line in {node.lineno, *(decorator.lineno for decorator in node.decorator_list)}:
            return node
    return listing.scope(at.line)
