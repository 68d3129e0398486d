"""The nodes of the graph that a loss was computed by."""

from __future__ import annotations

import sys
from typing import Any, Dict, List, Sequence, Set, Tuple

NODES_MAX = 5_000  # of a graph; of a larger one nothing is told
LOOKUPS = ("EmbeddingBackward0", "EmbeddingBagBackward0")  # nodes that take rows out of a table


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


def parents_of(order: Sequence[Any]) -> List[List[int]]:
    """For each node of `nodes_of`, the positions of the nodes that it hands gradients on to."""
    position = {node: index for index, node in enumerate(order)}
    return [[position[parent] for parent, _ in node.next_functions if parent is not None] for node in order]


def needless(parents: Sequence[Sequence[int]], leaves: Set[int], used: Set[int]) -> List[int]:
    """The nodes, leaves left out, from which no gradient goes on to a used node. All by position."""
    needed = set(used)
    found = []
    for index, above in enumerate(parents):
        if index in leaves or index in needed:
            continue
        if any(parent in needed for parent in above):
            needed.add(index)
        else:
            found.append(index)
    return found


def users_of(parents: Sequence[Sequence[int]], leaves: Set[int]) -> Dict[int, Set[int]]:
    """By leaf, the nodes that compute with it: those behind what only views it, as a transpose does."""
    children: Dict[int, List[int]] = {}
    for index, above in enumerate(parents):
        for parent in above:
            children.setdefault(parent, []).append(index)
    found: Dict[int, Set[int]] = {}
    for leaf in leaves:
        waiting, users = list(children.get(leaf, ())), set()
        while waiting:
            node = waiting.pop()
            if len(parents[node]) == 1 and node in children and node not in users:
                waiting += children[node]
            users.add(node)
        found[leaf] = {node for node in users if len(parents[node]) > 1} or users
    return found


def compiles_backward() -> bool:
    """Whether the compiler traces backward itself, where hooks of ours would become part of it."""
    compiled = sys.modules.get("torch._dynamo.compiled_autograd")
    return bool(getattr(compiled, "compiled_autograd_enabled", False))


def operation_of(node: Any) -> str:
    """The name of a node's operation, as `node.name()` tells where no Function of the script's hides that."""
    return type(node).__name__


def variable_of(node: Any) -> Any:
    """The leaf whose gradient a node adds up; None of other nodes, where a script may keep what it likes."""
    return node.variable if operation_of(node) == "AccumulateGrad" else None
