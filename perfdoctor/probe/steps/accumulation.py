"""Was there an update between two backward passes? Where no optimizer can be seen, the gradients tell.

Gradients that were cleared, or parameters that changed in place, mean a new step; gradients that still
hold what the last backward left in them are being accumulated.
"""

from __future__ import annotations

import weakref
from typing import Any, Optional, Sequence, Set

from ..looks.op_recording import unseen
from ..looks.transforms import is_wrapped
from ..loss_graph import variable_of

PIECE = 64  # about so many of a tensor's elements are compared
LEAF_SEARCH_NODES = 2_000  # how far to look for a parameter in a graph


class AccumulationDetector:
    """Watches one parameter that the loss depends on.

    A change by `.data` raises no version. Until versions have told one, some values are compared as well.
    """

    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self._plain = (torch.Tensor, torch.nn.Parameter)  # others may hold no elements themselves
        self._leaf: Optional[weakref.ref[Any]] = None
        self._state: Any = None
        self._values: Any = None
        self._by_value = True
        self.is_fresh, self.remember = unseen(self._is_fresh), unseen(self._remember)

    def _is_fresh(self, loss: Any) -> bool:
        """Whether gradients were cleared or parameters changed since `remember`."""
        if self._leaf is None or self._leaf() is None:
            leaf = find_leaf(loss)
            self._leaf = None if leaf is None else weakref.ref(leaf)
            return True
        if self._now() != self._state:
            self._by_value = False
            return True
        return self._by_value and self._values_now() != self._values

    def _remember(self) -> None:
        """Note how a backward left the parameter."""
        self._state = self._now()
        self._values = self._values_now() if self._by_value else None

    def _now(self) -> Any:
        leaf = self._leaf() if self._leaf is not None else None
        if leaf is None:
            return None
        grad = leaf.grad
        return (leaf._version, None) if grad is None else (leaf._version, id(grad), grad._version)

    def _values_now(self) -> Any:
        leaf = self._leaf() if self._leaf is not None else None
        return None if leaf is None else (self._some_of(leaf), self._some_of(leaf.grad))

    def _some_of(self, tensor: Any) -> Optional[str]:
        """A few elements, from all over it; None where it holds none, or a device would be waited for."""
        torch = self._torch
        if type(tensor) not in self._plain or not tensor.is_cpu or tensor.layout is not torch.strided:
            return None
        if is_wrapped(torch, tensor) or not tensor.is_contiguous() or not tensor.untyped_storage().nbytes():
            return None
        flat = tensor.detach().view(-1)
        return str(flat[:: max(1, len(flat) // PIECE)].tolist())  # in words a NaN is the same as itself


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
