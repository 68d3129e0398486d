"""How long backward takes for single calls, by hooks on the nodes of their results."""

from __future__ import annotations

from typing import Any, List

from .. import patch
from ..loss_graph import operation_of
from ..recorder import clock
from .seen_calls import SeenCall

NODES_MAX = 16  # of the graph, for one call


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


def time_backward(part: str, call: SeenCall, results: List[Any], given: List[Any]) -> None:
    """Time the nodes between what came out and what went in, for the part of the probe with this name."""
    seen = [value.grad_fn for value in given if value.grad_fn is not None]
    todo = [value.grad_fn for value in results if value.grad_fn is not None]
    nodes: List[Any] = []
    while todo and len(nodes) < NODES_MAX:
        node = todo.pop()
        if node in seen or operation_of(node).endswith("AccumulateGrad"):
            continue
        seen.append(node)
        nodes.append(node)
        todo.extend(after for after, _ in node.next_functions if after is not None)
    for node in nodes:
        timer = NodeTimer(call)
        node.register_prehook(patch.guarded(part, timer.begin))
        node.register_hook(patch.guarded(part, timer.end))
