"""Items of a dataset: keys that name them, copies that nobody else changes, and comparison of two."""

from __future__ import annotations

import copy
import operator
import sys
from collections import UserDict
from pathlib import PurePath
from typing import Any, Callable, Hashable, Optional

UNCHANGING = (type(None), int, float, complex, str, bytes, PurePath)


class Uncopied(Exception):
    """Raised for an item that holds something that may not be copied faithfully."""


def key_of(index: Any) -> Optional[Hashable]:
    """The key of an index, or None if it does not name a single item (a list of indices)."""
    if isinstance(index, (int, str, bytes)):
        return index
    if isinstance(index, tuple):
        keys = tuple(map(key_of, index))
        return None if None in keys else keys
    if getattr(index, "ndim", None) == 0 and hasattr(index, "__index__"):  # a number of numpy's or torch's
        return type(index), operator.index(index)
    return None


def copied(item: Any, of_tensor: Optional[Callable[[Any, Any], Any]] = None) -> Any:
    """A copy of an item that shares nothing mutable with it. Raises Uncopied.

    `of_tensor(tensor, torch)` may make something else of its tensors than copies.
    """
    if isinstance(item, UNCHANGING):
        return item
    torch, numpy = sys.modules["torch"], sys.modules.get("numpy")
    if isinstance(item, torch.Tensor):
        return (of_tensor or _copied_tensor)(item, torch)
    if isinstance(item, (list, tuple)):
        parts = [copied(part, of_tensor) for part in item]
        return type(item)(*parts) if hasattr(item, "_fields") else type(item)(parts)
    if isinstance(item, (dict, UserDict)):
        fresh = copy.copy(item)
        for key, value in item.items():
            fresh[key] = copied(value, of_tensor)
        return fresh
    if numpy is not None and isinstance(item, numpy.generic):
        return item
    if numpy is not None and type(item) is numpy.ndarray and not item.dtype.hasobject:
        return item.copy()
    if _is_image(item):
        return item.copy()
    raise Uncopied(type(item).__name__)


def _copied_tensor(tensor: Any, torch: Any) -> Any:
    """Copies a tensor's own elements only: a view's storage may be the whole dataset."""
    if tensor.device.type != "cpu" or tensor.layout is not torch.strided:
        raise Uncopied(f"{tensor.layout} tensor on {tensor.device}")
    fresh = tensor.detach().clone().requires_grad_(tensor.requires_grad)
    if type(fresh) is not type(tensor) or vars(fresh).keys() != vars(tensor).keys():
        raise Uncopied(type(tensor).__name__)
    return fresh


def _is_image(item: Any) -> bool:
    """Whether it is a Pillow image with its pixels loaded; one that still reads a file has another class."""
    pillow = sys.modules.get("PIL.Image")
    return pillow is not None and type(item) is pillow.Image


def same(one: Any, other: Any) -> bool:
    """Whether two items that `copied` takes hold the same values."""
    torch, numpy = sys.modules["torch"], sys.modules.get("numpy")
    if type(one) is not type(other):
        return False
    if isinstance(one, torch.Tensor):
        alike = one.dtype == other.dtype and one.shape == other.shape
        return alike and bool(((one == other) | ((one != one) & (other != other))).all())
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, (dict, UserDict)):
        return one.keys() == other.keys() and all(same(value, other[key]) for key, value in one.items())
    if numpy is not None and isinstance(one, (numpy.ndarray, numpy.generic)):
        return (one.dtype, one.shape, one.tobytes()) == (other.dtype, other.shape, other.tobytes())
    return bool(one == other or (one != one and other != other))
