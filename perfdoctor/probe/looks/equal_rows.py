"""Which rows of what a module is given are the same, bit by bit, and whether it returns the same for them.

Read with NumPy, which no mode of torch's sees, and in the host's memory only. No row is kept.
"""

from __future__ import annotations

import sys
from math import prod
from typing import Any, List, NamedTuple, Optional

from ..containers import first_of, is_a, is_mapping, is_sequence, length_of, tensors_in, values_of
from ..tensor_elements import elements_of
from .transforms import is_wrapped

LEAST = 4  # rows: two or three are alike by chance
ROWS_MAX = 1 << 16
GLANCE = 64  # elements of a row that show it to be another one, evenly spread
ELEMENTS_MAX = 1 << 18  # read of one tensor, where a glance shows no difference: about 3 ms
RESULTS = 64  # elements of a row of a result
MOSTLY = 0.9  # of the rows come equally often: what is drawn by chance does not
TENSORS_MAX, ITEMS_MAX, DEPTH = 16, 64, 3  # of what a module is given
PLAIN = (bool, int, float, str, type(None))
STEP = 0x9E3779B97F4A7C15  # of Vigna's splitmix64, as are the factors
MIXING = ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB))
ROUNDING, ROUNDING_16_BITS = 1e-4, 3e-2  # of the largest element: where a row lies changes how sums round


class EqualRows(NamedTuple):
    """The rows of one call."""

    rows: int
    distinct: int  # rows of one number, as all padding, count as different ones
    times: int  # that each comes; 0: not each as often
    together: bool  # equal rows lie next to each other
    apart: bool  # each tensor varies from row to row, or is one row for all
    firsts: Any  # for each row, the place of the first that is like it


def given_tensors(tensor: type, values: List[Any]) -> Optional[List[Any]]:
    """The tensors of some arguments; None where something else may differ from row to row as well."""
    found: List[Any] = []
    known = all(_gathers(tensor, value, found, DEPTH) for value in values)
    return found if known and len(found) <= TENSORS_MAX else None


def _gathers(tensor: type, value: Any, found: List[Any], depth: int) -> bool:
    if is_a(value, tensor):
        found.append(value)
        return True
    if is_a(value, PLAIN):
        return True
    if depth and is_sequence(value) and length_of(value) <= ITEMS_MAX:
        items = first_of(value, ITEMS_MAX)
        if len(items) >= LEAST and any(is_a(item, PLAIN) for item in items):
            return False  # may be a text or a number for each row
        return all(_gathers(tensor, item, found, depth - 1) for item in items)
    if depth and is_mapping(value):
        return all(_gathers(tensor, item, found, depth - 1) for item in values_of(value, ITEMS_MAX))
    return False


def equal_rows(torch: Any, tensors: List[Any]) -> Optional[EqualRows]:
    """How the rows of these tensors repeat all together; None where they do not, or nobody can tell."""
    arrays = [_elements(torch, tensor) for tensor in tensors]
    if not arrays or any(array is None for array in arrays):
        return None
    sizes = [array.shape[0] if array.ndim else 1 for array in arrays]
    rows = next((size for size in sizes if size > 1), 0)
    own = [array for array, size in zip(arrays, sizes) if size == rows]
    if not LEAST <= rows <= ROWS_MAX or not all(array.size for array in own):
        return None
    apart = all(size in (1, rows) or _is_mask(array) for array, size in zip(arrays, sizes))
    if _told(own, rows, GLANCE, apart) is None:
        return None
    return _told(own, rows, max(GLANCE, ELEMENTS_MAX // rows), apart)


def returns_the_same(torch: Any, result: Any, equal: EqualRows) -> Optional[bool]:
    """Whether what came out for equal rows is equal but for rounding; None where nothing is by rows."""
    for tensor in tensors_in(torch.Tensor, result, TENSORS_MAX):
        array = _elements(torch, tensor)
        if array is None or not tensor.is_floating_point():
            continue
        if not array.ndim or array.shape[0] != equal.firsts.shape[0] or not array.size:
            continue
        numpy = sys.modules["numpy"]
        values = _picked(numpy, array, RESULTS)
        if tensor.dtype == torch.bfloat16:
            values = (values.astype(numpy.uint32) << 16).view(numpy.float32)
        rounding = ROUNDING if tensor.element_size() >= 4 else ROUNDING_16_BITS
        values = values.astype(numpy.float64)
        off = numpy.abs(values - values[equal.firsts])
        return bool((off <= rounding * numpy.abs(values).max()).all())
    return None


def _elements(torch: Any, tensor: Any) -> Any:
    """The elements as an array, those of bfloat16 as whole numbers; None where there are none to read."""
    if type(tensor) not in (torch.Tensor, torch.nn.Parameter) or not tensor.is_cpu:
        return None
    if tensor.layout != torch.strided or tensor.is_nested or is_wrapped(torch, tensor):
        return None
    if tensor.dtype == torch.bfloat16:
        tensor = tensor.detach().view(torch.int16)
    array = elements_of(tensor)
    return None if array is None or array.dtype.itemsize > 8 else array


def _is_mask(array: Any) -> bool:
    """Whether it says which places of a row see which others, for all rows alike."""
    return bool(array.ndim == 2 and array.shape[0] == array.shape[1])


def _told(arrays: List[Any], rows: int, most: int, apart: bool) -> Optional[EqualRows]:
    """How rows repeat, by so many elements of each."""
    numpy = sys.modules["numpy"]
    total = numpy.zeros(rows, numpy.uint64)
    blank = numpy.ones(rows, bool)
    for array in arrays:
        picked = _picked(numpy, array, most)
        bits = numpy.ascontiguousarray(picked).view(f"u{picked.dtype.itemsize}").astype(numpy.uint64)
        if bits.shape[1] > 1:
            blank &= (bits == bits[:, :1]).all(1)
        else:
            blank[:] = False  # a number for each row is not padding
        bits += numpy.uint64(STEP)
        hashes = (bits * _factors(numpy, bits.shape[1])).sum(1, dtype=numpy.uint64)
        total = total * numpy.uint64(31) + (hashes ^ (hashes >> numpy.uint64(29)))
    return _repeating(numpy, total, numpy.flatnonzero(~blank), apart)


def _repeating(numpy: Any, hashes: Any, kept: Any, apart: bool) -> Optional[EqualRows]:
    rows, own = len(hashes), hashes[kept]
    if len(own) < LEAST:
        return None
    _, first, inverse, counts = numpy.unique(own, return_index=True, return_inverse=True, return_counts=True)
    distinct = len(counts)
    if 2 * distinct > len(own):
        return None
    times = int(numpy.bincount(counts).argmax())
    regular = times > 1 and (counts == times).mean() >= MOSTLY
    together = bool(1 + (own[1:] != own[:-1]).sum() == distinct)
    if not (regular or together):
        return None  # drawn with replacement, or of few categories
    firsts = numpy.arange(rows)
    firsts[kept] = kept[first[inverse.reshape(-1)]]
    even = bool((counts == times).all()) and len(own) == rows
    return EqualRows(rows, distinct + rows - len(own), times if even else 0, together, apart, firsts)


def _picked(numpy: Any, array: Any, most: int) -> Any:
    """So many elements of each row, in whatever order it lies in memory: nothing else is copied."""
    shape = array.shape[1:]
    count = prod(shape)
    if count <= most:
        return array.reshape(array.shape[0], count)
    places = (numpy.arange(most) * count + count // 2) // most
    index = (slice(None), *numpy.unravel_index(places, shape))
    return array[index]


def _factors(numpy: Any, count: int) -> Any:
    """One odd number for each element, of no generator: NumPy's is the script's."""
    mixed = numpy.arange(1, count + 1, dtype=numpy.uint64) * numpy.uint64(STEP)
    for shift, factor in MIXING:
        mixed = (mixed ^ (mixed >> numpy.uint64(shift))) * numpy.uint64(factor)
    return mixed | numpy.uint64(1)
