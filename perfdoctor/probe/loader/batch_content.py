"""What a batch holds: tensors, samples, bytes; and how many items its dataset has."""

from __future__ import annotations

from typing import Any, List, Optional

LEAVES_MAX = 64  # tensors of one batch that are looked at


def items_of(dataset: Any) -> Optional[int]:
    """How many items a map-style dataset holds, where it tells: its sampler has just asked the same."""
    if not hasattr(type(dataset), "__len__") or not hasattr(type(dataset), "__getitem__"):
        return None
    try:
        return len(dataset)
    except (TypeError, NotImplementedError, AttributeError):
        return None


def leaves(batch: Any, tensor: type) -> List[Any]:
    """The tensors of a batch, at most LEAVES_MAX."""
    tensors: List[Any] = []
    pending = [batch]
    while pending and len(tensors) < LEAVES_MAX:
        item = pending.pop()
        if isinstance(item, tensor):
            tensors.append(item)
        elif isinstance(item, dict):
            pending.extend(reversed(list(item.values())[:LEAVES_MAX]))
        elif isinstance(item, (list, tuple)):
            pending.extend(reversed(item[:LEAVES_MAX]))
        elif hasattr(item, "data") and isinstance(item.data, dict):  # a UserDict, as tokenizers return
            pending.append(item.data)
    return tensors


def samples_of(batch: Any, tensor: Any) -> int:
    """How many samples a batch holds: the first dimension of its first tensor; 0 if it has none."""
    first = batch[0] if isinstance(batch, (list, tuple)) and batch else batch
    if isinstance(first, tensor) and first.dim():
        return int(first.shape[0])
    for leaf in leaves(batch, tensor):
        if leaf.dim():
            return int(leaf.shape[0])
    return 0


def bytes_of(batch: Any, tensor: type) -> int:
    return sum(leaf.numel() * leaf.element_size() for leaf in leaves(batch, tensor))
