"""The nodes of the graph that a loss was computed by."""

from __future__ import annotations

from typing import Any, List, Set, Tuple

NODES_MAX = 5_000  # of a graph; of a larger one nothing is told


def nodes_of(root: Any) -> Any:
    """The nodes of a graph, each after all that it leads to; None where there are too many."""
    order: List[Any] = []
    seen: Set[Any] = {root}
    stack: List[Tuple[Any, Any]] = [(root, iter(root.next_functions))]
    while stack:
        node, rest = stack[-1]
        inner = next((parent for parent, _ in rest if parent is not None and parent not in seen), None)
        if inner is None:
            order.append(node)
            stack.pop()
            continue
        seen.add(inner)
        if len(seen) > NODES_MAX:
            return None
        stack.append((inner, iter(inner.next_functions)))
    return order
