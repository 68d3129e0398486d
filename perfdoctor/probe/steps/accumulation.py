"""Was there an update between two backward passes? Where no optimizer can be seen, the gradients tell.

Gradients that were cleared, or parameters that changed in place, mean a new step; gradients that still
hold what the last backward left in them are being accumulated.
"""

from __future__ import annotations

import weakref
from typing import Any, Optional, Sequence, Set

from ..looks.op_recording import unseen
from ..loss_graph import variable_of

LEAF_SEARCH_NODES = 2_000  # how far to look for a parameter in a graph


class AccumulationDetector:
    """Watches one parameter that the loss depends on."""

    def __init__(self) -> None:
        self._leaf: Optional[weakref.ref[Any]] = None
        self._state: Any = None
        self.is_fresh, self.remember = unseen(self._is_fresh), unseen(self._remember)

    def _is_fresh(self, loss: Any) -> bool:
        """Whether gradients were cleared or parameters changed since `remember`."""
        if self._leaf is None or self._leaf() is None:
            leaf = find_leaf(loss)
            self._leaf = None if leaf is None else weakref.ref(leaf)
            return True
        return bool(self._now() != self._state)

    def _remember(self) -> None:
        """Note how a backward left the parameter."""
        self._state = self._now()

    def _now(self) -> Any:
        leaf = self._leaf() if self._leaf is not None else None
        if leaf is None:
            return None
        grad = leaf.grad
        return (leaf._version, None) if grad is None else (leaf._version, id(grad), grad._version)


def find_leaf(loss: Any, nodes: int = LEAF_SEARCH_NODES, besides: Sequence[Any] = ()) -> Any:
    """Some parameter that `loss` depends on, none of those `besides`, or None."""
    if isinstance(loss, (list, tuple)):
        loss = loss[0] if loss else None
    node = getattr(loss, "grad_fn", None)
    waiting = [] if node is None else [node]
    seen: Set[Any] = set()
    while waiting and len(seen) < nodes:
        node = waiting.pop()
        if node in seen:
            continue
        seen.add(node)
        leaf = variable_of(node)
        if leaf is not None and all(leaf is not one for one in besides):
            return leaf
        waiting.extend(parent for parent, _ in node.next_functions if parent is not None)
    return None
