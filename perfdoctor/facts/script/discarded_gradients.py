"""Tells which backward works for gradients that are thrown away: DiscardedGradientFacts."""

from __future__ import annotations

import ast
from collections import Counter, defaultdict
from collections.abc import Sequence

from perfdoctor.facts.decode import location
from perfdoctor.facts.host.stack_costs import StackCosts
from perfdoctor.facts.registry import fact
from perfdoctor.facts.user_source.frames import Frame
from perfdoctor.facts.user_source.growing_names import written
from perfdoctor.facts.user_source.parse import Listing, Sources, calls, covers, header, logs, statements
from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.measured import Location, Phase
from perfdoctor.model.missing import Missing
from perfdoctor.runs.types import RankRecords
from perfdoctor.wire.events.script import RootModuleEvent
from perfdoctor.wire.events.training import DiscardedGradientsEvent

# What these give has no graph.
CUTTING = frozenset("data detach device dtype item numel numpy shape size tolist".split())
CLEARING = frozenset(("zero_grad", "backward"))  # after it, gradients are others
SIZES = frozenset("abs isfinite isinf isnan max mean norm numel std sum".split())
MOSTLY = 0.5  # of the looks: fewer are a stage of the training; of a model, of samples
SEEN = 5  # samples of its calls


@dataclass(frozen=True)
class DiscardedGradientFacts:
    """The line whose backward works for gradients that are cleared before an update uses them."""

    backwards: int  # of this line that were seen to
    of_backward: float  # share of all backward time that goes into them
    of_line: float  # share of the line's own
    elements: int  # of the parameters whose gradients are thrown away
    name: str | None  # of the tensor to cut the graph at
    at: Location | None  # of the backward
    entry: Location | None  # where the tensor goes into the loss; else what calls the network for it
    read: bool  # the script takes gradients for something of its own
    asked: bool = False  # the backward is for the gradient of this tensor alone, which is no parameter


@fact
def discarded_gradient_facts(
    rank: RankRecords, sources: Sources, costs: StackCosts | Missing | None = None
) -> DiscardedGradientFacts | None:
    """What most looks show of one line, or None where every gradient has its use."""
    looks = rank.of(DiscardedGradientsEvent)
    of_line: dict[tuple[str, int] | None, list[DiscardedGradientsEvent]] = defaultdict(list)
    for look in looks:
        if look.needless_s > 0 and look.seconds > 0 and look.line_s > 0:
            at = location(look.at)
            of_line[(at.file, at.line) if at is not None else None].append(look)
    seen = max(of_line.values(), key=lambda found: sum(_share(look) for look in found), default=[])
    if len(seen) <= MOSTLY * len(looks):
        return None
    last = seen[-1]
    at, held_at, asked = location(last.at), location(last.held_at), bool(last.asked)
    named = _entry(sources, held_at, last.name)
    return DiscardedGradientFacts(
        backwards=sum(look.of_line for look in seen),
        of_backward=min(1.0, sum(_share(look) for look in seen) / len(looks)),
        of_line=min(1.0, sum(look.needless_s for look in seen) / sum(look.line_s for look in seen)),
        elements=last.elements,
        name=last.name,
        at=sources.shown(at),
        entry=None if asked else named or _called_at(rank, last.elements, at, costs, sources),
        read=at is not None and _is_read(sources.file(at.file), at.line, last.name if asked else None),
        asked=asked,
    )


def _share(look: DiscardedGradientsEvent) -> float:
    return look.needless_s / look.seconds


def _entry(sources: Sources, held_at: Location | None, name: str | None) -> Location | None:
    """Where the last statement before the backward computes with the tensor and its graph."""
    if held_at is None or name is None:
        return None
    listing = sources.file(held_at.file)
    scope = listing.scope(held_at.line)
    entries = [
        node
        for node in (statements(scope.body) if scope is not None else ())
        if node.lineno <= held_at.line
        and (isinstance(node, (ast.Assign, ast.AugAssign, ast.AnnAssign)) or covers(node, held_at.line))
        and not logs(node)
    ]
    for node in reversed(entries):
        line = _given(node, name)
        if line is not None:
            return sources.at(held_at.file, line, held_at.function)
    return None


def _called_at(
    rank: RankRecords,
    elements: int,
    at: Location | None,
    costs: StackCosts | Missing | None,
    sources: Sources,
) -> Location | None:
    """The line that calls the model of so many parameters, in the function with the backward or below it.

    For a loss that another function makes, with a tensor that no name holds any more.
    """
    models = [root for root in rank.of(RootModuleEvent) if MOSTLY * root.parameters < elements]
    models = [root for root in models if elements <= root.parameters]
    if at is None or at.function is None or len(models) != 1 or not isinstance(costs, StackCosts):
        return None
    kind = (models[0].module or "").rpartition(".")[2]
    calling: Counter[Frame] = Counter()
    for cost in costs.costs:
        frames = (*cost.callers, *cost.path) if cost.phase is Phase.FORWARD else ()
        inside = [index for index, frame in enumerate(frames) if _class_around(frame, sources) == kind]
        before = frames[: inside[0]] if inside else ()
        if any((frame.file, frame.name) == (at.file, at.function.rpartition(".")[2]) for frame in before):
            calling[before[-1]] += cost.samples
    if calling.total() < SEEN:
        return None
    most, count = calling.most_common(1)[0]
    return sources.at(most.file, most.line, most.function) if count > MOSTLY * calling.total() else None


def _class_around(frame: Frame, sources: Sources) -> str | None:
    """The name of the class that a frame's function is a method of."""
    tree = sources.file(frame.file).tree
    around = (
        node.name
        for node in (tree.body if tree is not None else ())
        if isinstance(node, ast.ClassDef) and node.lineno <= frame.line <= (node.end_lineno or 0)
    )
    return next(around, None)


def _given(node: ast.stmt, name: str) -> int | None:
    """The line on which this statement computes with the name, graph and all."""
    nodes = [inner for part in header(node) for inner in ast.walk(part)]
    cut: set[int] = set()
    for inner in nodes:
        if isinstance(inner, ast.Attribute) and inner.attr in CUTTING:
            cut.update(id(one) for one in ast.walk(inner.value))
        elif isinstance(inner, ast.Call) and (written(inner.func) or "").endswith("_like"):
            cut.update(id(one) for one in ast.walk(inner))
    for inner in nodes:
        if id(inner) in cut or written(inner) != name:
            continue
        if isinstance(inner, (ast.Name, ast.Attribute)) and isinstance(inner.ctx, ast.Load):
            return inner.lineno
    return None


def _is_read(listing: Listing, line: int, own: str | None) -> bool:
    """Whether gradients of others than `own` are taken, of it before they are cleared; of none, anywhere."""
    scope = listing.scope(line)
    if listing.tree is None or own is None or scope is None:
        return listing.tree is not None and _reads_gradients([listing.tree])
    loops = list(listing.loops(line))
    first = loops[-1].lineno if loops else line
    after = []
    for node in sorted(statements(scope.body), key=lambda each: each.lineno):
        called = {name for _, name in calls(node)}
        if node.lineno > line and called & CLEARING:
            break
        if node.lineno >= first:
            after.append((node, called))
    names = {name for _, called in after for name in called}
    functions = [
        node
        for node in ast.walk(listing.tree)
        if isinstance(node, ast.FunctionDef) and node.name in names and node is not scope
    ]
    return _reads_gradients([*(part for node, _ in after for part in header(node)), *functions], own)


def _reads_gradients(nodes: Sequence[ast.AST], own: str | None = None) -> bool:
    """Whether gradients are taken for more than clearing, scaling, testing or logging their size."""
    inner = [node for part in nodes for node in ast.walk(part)]
    harmless: set[int] = set()
    for node in inner:
        if isinstance(node, ast.Attribute) and own is not None and written(node.value) == own:
            harmless.add(id(node))
        if isinstance(node, ast.Compare):
            harmless.update(id(one) for one in (node.left, *node.comparators))
        elif isinstance(node, ast.Call):
            target = node.func.value if isinstance(node.func, ast.Attribute) else None
            called = node.func.attr if isinstance(node.func, ast.Attribute) else ""
            while (called.endswith("_") or called in SIZES) and isinstance(target, ast.Attribute):
                harmless.add(id(target))
                target = target.value
            harmless.add(id(node.func))  # torch.autograd.grad(...)
    return any(
        isinstance(node, ast.Attribute)
        and node.attr == "grad"
        and isinstance(node.ctx, ast.Load)
        and id(node) not in harmless
        for node in inner
    )
