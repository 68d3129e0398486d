"""Exact lines for what a window can only put down to a function: the profiler names the line of its `def`.

A function's source says which of its statements can have made a call, such as `.item()` for `aten::item`;
stack samples say how its time is shared out where there are several.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from dataclasses import replace

from perfdoctor.analysis.device import COPYING, AttentionFacts, CopyFacts, WaitFacts
from perfdoctor.analysis.source import Function, Listing, Source, Sources, calls, header, statements
from perfdoctor.model import Location, RunFacts, StackFacts
from perfdoctor.trace.results import BlockingCalls

VALUE = frozenset("item tolist float int bool print format str".split())  # what reads one value, or prints it
OUT = VALUE | frozenset("cpu numpy to copy_".split())
IN = frozenset("to cuda copy_ tensor as_tensor".split())
# Operator around a runtime call: names of what a statement calls to get there.
CALLED = {
    None: frozenset(("synchronize",)),
    "aten::item": VALUE, "aten::_local_scalar_dense": VALUE, "aten::is_nonzero": VALUE,
    "aten::equal": frozenset(("equal",)), "aten::nonzero": frozenset("nonzero argwhere where".split()),
    "aten::masked_select": frozenset(("masked_select",)), "aten::_unique2": frozenset(("unique",)),
    "aten::softmax": frozenset(("softmax", "Softmax")),
}  # fmt: skip
READS_TESTS = ("aten::is_nonzero",)  # `if tensor:`
# A mask in brackets: how many does it hold?
READS_MASKS = (
    "aten::index",
    "aten::index_put_",
    "aten::nonzero",
)
TESTS = (ast.If, ast.While, ast.Assert)

Shares = list[tuple[Location, float]]


class Lines:
    """Looks into the user's source; stack samples weigh the lines."""

    def __init__(self, source: Source, run: RunFacts, stacks: StackFacts | None) -> None:
        self.source = source
        self.sources = Sources(source)
        costs = [cost for lines in (stacks.phases.values() if stacks else ()) for cost in lines]
        self.sampled = [cost.at for cost in costs]
        self.samples = {(cost.at.file, cost.at.line): cost.samples for cost in costs}
        scripts = [f"{run.cwd}/{word}" for word in run.command if word.endswith(".py")]
        self.folders = [f"{run.cwd}/", *(f"{script.rpartition('/')[0]}/" for script in scripts)]
        self.files: dict[str, str] = {}

    def of(self, at: Location, op: str | None, direction: str | None = None) -> Shares:
        """The lines that a call at `at` can come from and the share of it that each has; [] where unknown."""
        file = self._file(at.file)
        if not file:
            return []
        scope = _scope(self.sources.file(file), at)
        found = (
            [node.lineno for node in statements(scope.body) if makes(node, op, direction)] if scope else []
        )
        if at.line in found:  # the line itself was recorded
            found = [at.line]
        return self._shared([replace(at, file=file, line=line) for line in dict.fromkeys(found)])

    def anywhere(self, op: str | None, direction: str | None = None) -> Shares:
        """The same, of a call whose function is not known either: the sampled lines that can make it."""
        statement = [(at, self.sources.file(at.file).statement(at.line)) for at in self.sampled]
        return self._shared([at for at, node in statement if node is not None and makes(node, op, direction)])

    def _shared(self, places: Iterable[Location]) -> Shares:
        """A single place has it all; several share it as they were sampled."""
        weighed = [(at, self.samples.get((at.file, at.line), 0)) for at in places]
        total = sum(weight for _, weight in weighed)
        if len(weighed) > 1 and not total:
            return []
        return [
            (replace(at, text=self.sources.text(at.file, at.line)), weight / total if total else 1.0)
            for at, weight in weighed
            if weight or not total
        ]

    def _file(self, name: str) -> str:
        """The path of a file that the profiler names without its folder; "" where it cannot be found."""
        if name not in self.files:
            sampled = [at.file for at in self.sampled if at.file.endswith(f"/{name}")]
            tried = [name, *(folder + name for folder in self.folders), *sampled]
            self.files[name] = next((path for path in tried if self.source(path, 1) is not None), "")
        return self.files[name]


def located(groups: Mapping[type, object], lines: Lines) -> dict[type, object]:
    """The groups with exact lines where they can be told."""
    found = dict(groups)
    waits, copies, attention = (groups.get(kind) for kind in (WaitFacts, CopyFacts, AttentionFacts))
    if isinstance(waits, WaitFacts):
        known = any(call.at is not None for call in waits.calls)
        found[WaitFacts] = replace(
            waits, calls=tuple(part for call in waits.calls for part in _parts(call, lines, known))
        )
    if isinstance(copies, CopyFacts):
        found[CopyFacts] = _copies(copies, lines)
    if isinstance(attention, AttentionFacts):
        places = [_first(at, lines.of(at, "aten::softmax")) for at in attention.at]
        places = places or [at for at, _ in lines.anywhere("aten::softmax")]
        found[AttentionFacts] = replace(attention, at=tuple(dict.fromkeys(places)))
    return found


def _parts(call: BlockingCalls, lines: Lines, known: bool) -> list[BlockingCalls]:
    """A blocking call by its lines. Where a window tells functions, one without any was no user's call."""
    if call.at is None:
        shares = [] if known else lines.anywhere(call.op, call.direction)
    else:
        shares = lines.of(call.at, call.op, call.direction)
    return [
        replace(
            call,
            at=at,
            count=max(1, round(call.count * share)),
            us=call.us * share,
            idle_us=call.idle_us * share,
        )
        for at, share in shares
    ] or [call]


def _copies(copies: CopyFacts, lines: Lines) -> CopyFacts:
    places = [_first(at, lines.of(at, COPYING[0], "HtoD")) for at in copies.at]
    sites = [
        replace(site, at=_first(site.at, lines.of(site.at, site.op, site.direction))) if site.at else site
        for site in copies.sites
    ]
    detours = [
        replace(
            detour,
            out_at=detour.out_at and _first(detour.out_at, lines.of(detour.out_at, detour.out, "DtoH")),
            back_at=detour.back_at and _first(detour.back_at, lines.of(detour.back_at, detour.back, "HtoD")),
        )
        for detour in copies.detours
    ]
    return replace(copies, at=tuple(dict.fromkeys(places)), sites=tuple(sites), detours=tuple(detours))


def _first(at: Location, shares: Shares) -> Location:
    """The line with the largest share, or the function's where none is known."""
    return max(shares, key=lambda entry: entry[1], default=(at, 1.0))[0]


def makes(node: ast.stmt, op: str | None, direction: str | None = None) -> bool:
    """Whether a statement can make the runtime call of an operator, or a copy in that direction."""
    wanted = CALLED.get(op, frozenset())
    if op in COPYING:
        wanted = OUT if direction == "DtoH" else IN
    inner = [part for top in header(node) for part in ast.walk(top)]
    return (
        any(name in wanted for _, name in calls(node))
        or ("format" in wanted and any(isinstance(part, ast.FormattedValue) for part in inner))
        or (op in READS_TESTS and isinstance(node, TESTS))
        or (
            op in READS_MASKS
            and any(isinstance(part, ast.Subscript) and _is_mask(part.slice) for part in inner)
        )
    )


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
