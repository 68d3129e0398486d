"""Finds attention written out in the source of lines that stacks pass through: for runs without a window.

A function writes attention out where the result of a product goes, perhaps scaled and masked, into a softmax,
and what comes of that into another product; a product with a weight, such as the router's in a mixture of
experts, makes no scores. How long its lines take, stack samples of the forward pass tell;
backward is taken to pass through them as long, in proportion, as through the rest.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import replace

from perfdoctor.facts.device.device import US_PER_S, AttentionFacts
from perfdoctor.facts.user_source.origins import base_name, called_name
from perfdoctor.facts.user_source.parse import Function, Listing, Sources, covers, statements
from perfdoctor.model.measured import LineCost, Phase, StackFacts, StepFacts
from perfdoctor.trace.results import AttentionUse

PRODUCTS = frozenset("matmul bmm einsum baddbmm".split())
SOFTMAX, SOFTMAX_MODULE = "softmax", "Softmax"
SEEN = 10  # samples in those lines: fewer could be chance


def written_out(stacks: StackFacts, step: StepFacts, sources: Sources) -> AttentionFacts | None:
    """Written-out attention by the lines of the forward pass, or None where no function holds one."""
    functions: dict[tuple[str, str | None], list[LineCost]] = defaultdict(list)
    for line in stacks.phases.get(Phase.FORWARD, ()):
        functions[line.at.file, line.at.function].append(line)
    between: list[LineCost] = []
    products: list[LineCost] = []
    for (file, _), lines in functions.items():
        listing = sources.file(file)
        scope = listing.scope(lines[0].at.line)
        if isinstance(scope, Function):
            inside, outside = attention_of(scope, _softmaxes(listing))
            between += _at(lines, inside)
            products += _at(lines, outside)
    if sum(line.samples for line in (*between, *products)) < SEEN or not between:
        return None
    found = of_forward(sum(line.share for line in between), sum(line.share for line in products), step)
    places = sorted(
        (*between, *products), key=lambda line: (SOFTMAX not in (line.at.statement or ""), -line.share)
    )
    return found and replace(found, at=tuple(line.at for line in places))


def of_forward(between_share: float, products_share: float, step: StepFacts) -> AttentionFacts | None:
    """Attention that takes these shares of the step in forward, its backward included."""
    forward = step.share(Phase.FORWARD)
    if forward <= 0:
        return None
    both = 1.0 + step.share(Phase.BACKWARD) / forward
    use = AttentionUse(
        backward=False,
        heads=None,
        queries=None,
        keys=None,
        at=None,
        count=0,
        between_us=both * between_share * step.mean_s * US_PER_S,
        products_us=both * products_share * step.mean_s * US_PER_S,
    )
    return AttentionFacts((use,), 1 / (step.mean_s * US_PER_S))


def _at(lines: Sequence[LineCost], nodes: Iterable[ast.stmt]) -> list[LineCost]:
    statements_at = list(nodes)
    return [line for line in lines if any(covers(node, line.at.line) for node in statements_at)]


def _softmaxes(listing: Listing) -> frozenset[str]:
    """What a softmax is called by: its own name, and attributes that are set to a module of it."""
    assigned = (
        node for node in (ast.walk(listing.tree) if listing.tree else ()) if isinstance(node, ast.Assign)
    )
    modules = (node.targets[0] for node in assigned if _calls(node, {SOFTMAX_MODULE}))
    return frozenset((SOFTMAX, *(target.attr for target in modules if isinstance(target, ast.Attribute))))


def attention_of(
    scope: Function, softmaxes: Set[str] = frozenset({SOFTMAX})
) -> tuple[list[ast.stmt], list[ast.stmt]]:
    """The statements between the two products, the softmax's included, and the products' own; else nothing.

    A statement that does several of these counts as standing between.
    """
    scores: set[str] = set()  # names of what came out of the first product
    weights: set[str] = set()  # of what came out of the softmax
    first: list[ast.stmt] = []
    between: list[ast.stmt] = []
    second: list[ast.stmt] = []
    for node in statements(scope.body):
        if not isinstance(node, (ast.Assign, ast.AugAssign, ast.AnnAssign, ast.Return, ast.Expr)):
            continue
        names = {inner.id for inner in ast.walk(node) if isinstance(inner, ast.Name)}
        product, scoring = _multiplies(node), _multiplies(node, with_weights=False)
        if _calls(node, softmaxes) and (names & scores or scoring):
            between.append(node)
            weights |= _set(node)
            if product and isinstance(node, ast.Return):
                second.append(node)
        elif product and names & weights:
            second.append(node)
        elif scoring:
            first.append(node)
            scores |= _set(node)
        elif names & weights:
            between.append(node)
            weights |= _set(node)
        elif names & scores:
            between.append(node)
            scores |= _set(node)
    if not second:
        return [], []
    return between, [node for node in (*first, *second) if node not in between]


def _multiplies(node: ast.stmt, with_weights: bool = True) -> bool:
    """Whether a statement multiplies matrices; or else, two that are no weights of the module's."""
    return any(with_weights or not any(map(_is_weight, operands)) for operands in _products(node))


def _products(node: ast.stmt) -> Iterator[Sequence[ast.expr]]:
    """The two operands of each product."""
    for inner in ast.walk(node):
        if isinstance(inner, ast.BinOp) and isinstance(inner.op, ast.MatMult):
            yield inner.left, inner.right
        elif isinstance(inner, ast.Call) and called_name(inner) in PRODUCTS:
            receiver = [inner.func.value] if isinstance(inner.func, ast.Attribute) else []
            yield [*receiver, *inner.args][-2:]


def _is_weight(node: ast.expr) -> bool:
    """`self.codes` or `self.codes.t()`, but not `self.to_keys(x).transpose(-2, -1)`."""
    while isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        node = node.func.value
    return (base_name(node) or "").startswith("self.")


def _calls(node: ast.stmt, names: Set[str]) -> bool:
    return any(called_name(call) in names for call in ast.walk(node) if isinstance(call, ast.Call))


def _set(node: ast.stmt) -> set[str]:
    names = (inner for inner in ast.walk(node) if isinstance(inner, ast.Name))
    return {inner.id for inner in names if isinstance(inner.ctx, ast.Store)}
