"""What a batch holds: tensors, samples, bytes."""

from __future__ import annotations

import collections
from typing import Any, List, Optional, Tuple

from ..containers import fields_of, first_of, held_by, is_a, is_mapping, is_sequence, length_of, values_of

LEAVES_MAX = 64  # tensors of one batch that are looked at
ITEMS_MAX = 512  # of a batch that are looked at to find them
FIELDS = 4  # tensors of a batch that may be as many as a small batch has samples
PLAIN = (str, bytes, int, float, type(None))  # of a list that begins with one of these nothing is looked at


def leaves(batch: Any, tensor: type) -> List[Any]:
    """The tensors of a batch, at most LEAVES_MAX."""
    tensors: List[Any] = []
    pending, left = [batch], ITEMS_MAX
    while pending and left and len(tensors) < LEAVES_MAX:
        item = pending.pop()
        left -= 1
        if is_a(item, tensor):
            tensors.append(item)
        elif is_mapping(item):
            pending.extend(reversed(values_of(item, LEAVES_MAX)))
        elif is_sequence(item):
            first = first_of(item, LEAVES_MAX)
            if first and not is_a(first[0], PLAIN):
                pending.extend(reversed(first))
        elif is_a(item, collections.UserDict):  # as tokenizers return
            pending.append(fields_of(item).get("data"))
    return tensors


def batch_size_of(loader: Any) -> Optional[int]:
    """Samples of a whole batch, as a loader or its batch sampler tells; None if neither does."""
    for told in (loader, getattr(loader, "batch_sampler", None)):
        size = held_by(told, "batch_size")
        if is_a(size, int):
            return int(size)
    return None


def first_sizes(batch: Any, tensor: Any) -> Optional[Tuple[int, int]]:
    """The first two sizes of a batch's first tensor; None where it has none, or one of a single dimension."""
    first = next(iter(leaves(batch, tensor)), None)
    if first is None or first.is_nested or first.dim() < 2:
        return None
    return int(first.shape[0]), int(first.shape[1])


def samples_of(batch: Any, tensor: Any, most: int = 0, exact: bool = False) -> int:
    """How many samples a batch holds: the first dimension of its first tensor; 0 if it has none.

    `most`: samples that were put together, 0 if unknown. Where tensors tell of more, or a list is as long,
    the first dimension is another one: of lists with a tensor for each sample, of batches with time first.
    `exact`: that is how many there are, unless collating leaves some out.
    """
    first = first_of(batch, 1)[0] if is_sequence(batch) and length_of(batch) else batch
    if not most and is_a(first, tensor) and first.dim():
        return int(first.size(0))  # a nested tensor has no shape
    sizes = [int(leaf.size(0)) for leaf in leaves(batch, tensor) if leaf.dim()]
    counted = sizes[0] if sizes else 0
    if not most or counted == most:
        return counted
    as_long = any(is_sequence(each) and length_of(each) == most for each in (batch, first)) and most > FIELDS
    if exact and (first_sizes(batch, tensor) or (0, 0))[1] == most:
        return most
    return most if sizes and (as_long or counted > most or most in sizes) else counted


def bytes_of(batch: Any, tensor: type) -> int:
    """The size of all tensors of a batch."""
    return sum(leaf.numel() * leaf.element_size() for leaf in leaves(batch, tensor))
