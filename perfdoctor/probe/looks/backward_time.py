"""How long backward takes for single calls, by hooks on the nodes of their results."""

from __future__ import annotations

from typing import Any, List, Set, Tuple

from .. import patch
from ..loss_graph import operation_of
from ..recorder import clock
from .seen_calls import SeenCall

NODES_MAX = 16  # of the graph, for one call
SPAN_MAX = 4_000  # that are timed as one


class NodeTimer:
    """Times one node of the graph for a call."""

    __slots__ = ("begin_ns", "call")

    def __init__(self, call: SeenCall) -> None:
        self.call = call
        self.begin_ns = 0

    def begin(self, gradients: Any) -> None:
        """The node's backward begins."""
        self.begin_ns = clock()

    def end(self, results: Any, gradients: Any) -> None:
        """It has ended."""
        self.call.backward_ns += clock() - self.begin_ns


class SpanTimer:
    """Times all of backward from one node on until the last of some others has ended."""

    __slots__ = ("begin_ns", "end_ns", "ns")

    def __init__(self) -> None:
        self.begin_ns = self.end_ns = self.ns = 0

    def begin(self, gradients: Any) -> None:
        """The first node's backward begins."""
        self.close()
        self.begin_ns = clock()

    def end(self, results: Any, gradients: Any) -> None:
        """One of the last has ended."""
        self.end_ns = clock()

    def close(self) -> int:
        """Nanoseconds so far."""
        if self.end_ns > self.begin_ns > 0:
            self.ns += self.end_ns - self.begin_ns
        self.begin_ns = self.end_ns = 0
        return self.ns


def time_backward(part: str, call: SeenCall, results: List[Any], given: List[Any]) -> None:
    """Time the nodes between what came out and what went in, for the part of the probe with this name."""
    for node in nodes_between(results, nodes_that_made(given), NODES_MAX):
        timer = NodeTimer(call)
        node.register_prehook(patch.guarded(part, timer.begin))
        node.register_hook(patch.guarded(part, timer.end))


def time_span(part: str, result: Any, before: Set[Any]) -> Tuple[SpanTimer, int]:
    """Time all nodes of a result that came after these as one, and count them; 0: too many, or none."""
    timer, nodes = SpanTimer(), nodes_between([result], before, SPAN_MAX + 1)
    if not 0 < len(nodes) <= SPAN_MAX:
        return timer, 0
    within = set(nodes)
    nodes[0].register_prehook(patch.guarded(part, timer.begin))
    for node in nodes:
        if not any(after in within for after, _ in node.next_functions):
            node.register_hook(patch.guarded(part, timer.end))
    return timer, len(nodes)


def nodes_that_made(tensors: List[Any]) -> Set[Any]:
    """The nodes of the graph whose results these are."""
    return {value.grad_fn for value in tensors if value.grad_fn is not None}


def nodes_between(results: List[Any], before: Set[Any], most: int) -> List[Any]:
    """So many of the nodes of results that came after these; those that add up gradients left out."""
    seen = set(before)
    todo = [value.grad_fn for value in results if value.grad_fn is not None]
    nodes: List[Any] = []
    while todo and len(nodes) < most:
        node = todo.pop()
        if node in seen or operation_of(node).endswith("AccumulateGrad"):
            continue
        seen.add(node)
        nodes.append(node)
        todo.extend(after for after, _ in node.next_functions if after is not None)
    return nodes
