"""The elements of a tensor on the CPU as an array of its memory, of which the tensor knows nothing."""

from __future__ import annotations

import sys
from functools import cache
from typing import Any, Optional


class _Memory:
    """What NumPy makes an array of that can only be read: its interface of version 3."""

    __slots__ = ("__array_interface__", "tensor")

    def __init__(self, tensor: Any, kind: str, shape: Any, strides: Any, begin: int) -> None:
        self.tensor = tensor  # the memory is there as long as it is
        self.__array_interface__ = {
            "version": 3,
            "typestr": kind,
            "shape": shape,
            "strides": strides,  # in bytes
            "data": (begin, True),
        }


def elements_of(tensor: Any) -> Optional[Any]:
    """The array of a strided tensor of torch's own on the CPU; None where there is none.

    `Tensor.numpy()` would keep the script from resizing the tensor's storage ever after. No operation of
    torch's is called, which the script's profilers and modes would see. There is none of a type that NumPy
    does not have, of elements that are still to be negated or conjugated, of memory that was freed, and of a
    tensor that only stands for another.
    """
    torch, numpy = map(sys.modules.get, ("torch", "numpy"))
    if torch is None or numpy is None or torch._C._get_tracing_state():  # what traces makes sizes tensors
        return None
    if tensor.is_conj() or tensor.is_neg():
        return None
    try:
        size, held, begin = tensor.element_size(), tensor.untyped_storage().nbytes(), tensor.data_ptr()
        shape, strides = tuple(tensor.shape), None
        count, kind = tensor.numel(), _type_of(numpy, tensor.dtype)
        if not count:  # may have no address, of which NumPy before 2 makes no array
            return numpy.empty(shape, kind)
        if not tensor.is_contiguous():
            strides = tuple(size * stride for stride in tensor.stride())
            count = 1 + sum((most - 1) * step for most, step in zip(shape, tensor.stride()))
        if not (begin and (tensor.storage_offset() + count) * size <= held):
            return None
        memory = _Memory(tensor, kind, shape, strides, begin)
    except (RuntimeError, TypeError):
        return None
    return numpy.asarray(memory)


@cache
def _type_of(numpy: Any, dtype: Any) -> str:
    return str(numpy.dtype(str(dtype).partition(".")[2]).str)
