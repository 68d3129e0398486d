"""Hashes of some elements of each row of a module's inputs, by which rows are known again.

Of tensors in the host's memory only: to read a device's would wait for it. No row is kept.
"""

from __future__ import annotations

import random
from math import prod
from typing import Any, Dict, List, Optional, Tuple

from ..loader.batch_content import leaves
from .transforms import is_wrapped

ELEMENTS = 64  # of a row, evenly spread
TOKENS = 1_024  # of a row of whole numbers, which may be a text with padding behind it
DISTINCT = 4  # values in a row: masks, labels and blank pictures are alike without being the same item
RESULTS = 8  # elements of a row of a result
SHAPES_MAX = 64  # whose places are remembered
INTEGERS = {1: "int8", 2: "int16", 4: "int32", 8: "int64"}  # by bytes of an element


class RowHashes:
    """Makes hashes, the same ones for the same rows in this process."""

    def __init__(self, torch: Any) -> None:
        self.torch = torch
        self.places: Dict[Any, Any] = {}  # by shape of a row and number of elements
        self.factors: Any = None  # one for each element

    def of_inputs(self, inputs: Any) -> Optional[Tuple[int, List[Optional[int]]]]:
        """How many rows tensors among the inputs have, and a hash of each; None of a row with few values.

        None where nothing tells rows apart: on a device, or where all rows are alike, as of positions.
        """
        total: Any = None
        told: Any = None
        rows = 0
        for tensor in leaves(inputs, self.torch.Tensor):
            if not self._is_readable(tensor) or tensor.dim() < 2 or tensor.is_complex():
                continue
            if rows and int(tensor.shape[0]) != rows:
                continue
            hashes, distinct = self._hashes(tensor.detach())
            if not bool(distinct.any()) or (hashes.numel() > 1 and bool((hashes == hashes[0]).all())):
                continue
            rows = int(tensor.shape[0])
            hashes = hashes * distinct
            total = hashes if total is None else 31 * total + hashes
            told = distinct if told is None else told | distinct
        if total is None:
            return None
        pairs = zip(total.tolist(), told.tolist())
        return rows, [value if known else None for value, known in pairs]

    def of_result(self, result: Any, rows: int) -> Optional[Tuple[int, List[List[float]], float]]:
        """Bytes of a row of the first result, some elements of each, and how far they may differ by rounding.

        The last is a share of the largest. A text's result is read at its first place, since padding differs.
        """
        for tensor in leaves(result, self.torch.Tensor):
            if not self._is_readable(tensor) or tensor.dim() < 2 or int(tensor.shape[0]) != rows:
                continue
            if not tensor.is_floating_point():
                continue
            size, tensor = tensor.numel() // rows * tensor.element_size(), tensor.detach()
            rounding = 1e-3 if tensor.element_size() >= 4 else 3e-2  # 16 bits keep two or three digits
            if tensor.dim() == 3:
                tensor = tensor[:, 0]
            return size, self._picked(tensor, RESULTS).tolist(), rounding
        return None

    def _is_readable(self, tensor: Any) -> bool:
        kinds = (self.torch.Tensor, self.torch.nn.Parameter)
        if type(tensor) not in kinds or not tensor.is_cpu or tensor.layout != self.torch.strided:
            return False
        return bool(tensor.numel()) and not tensor.is_nested and not is_wrapped(self.torch, tensor)

    def _picked(self, tensor: Any, most: int) -> Any:
        """So many elements of each row, in whatever order it lies in memory: nothing else is copied."""
        shape = tuple(tensor.shape[1:])
        places = self.places.get((shape, most))
        if places is None:
            count = prod(shape)
            chosen = (
                [count * (2 * at + 1) // (2 * most) for at in range(most)] if count > most else range(count)
            )
            columns: List[Any] = []
            for size in reversed(shape):
                columns.insert(0, self._numbers([at % size for at in chosen]))
                chosen = [at // size for at in chosen]
            if len(self.places) >= SHAPES_MAX:
                self.places.clear()
            places = self.places[(shape, most)] = (slice(None), *columns)
        return tensor[places]

    def _hashes(self, tensor: Any) -> Tuple[Any, Any]:
        """A hash of each row, and whether it has enough different values."""
        torch = self.torch
        integers = not tensor.is_floating_point()
        if integers and tensor.dim() == 2:
            values = tensor[:, :TOKENS].to(torch.int64)
            bits = values * self._without_padding(values)
        else:
            values = self._picked(tensor, ELEMENTS)
            bits = values.contiguous().view(getattr(torch, INTEGERS[values.element_size()])).to(torch.int64)
        if self.factors is None:  # of Python's own numbers: torch's generator is the script's
            source = random.Random(0)
            self.factors = self._numbers([source.getrandbits(63) | 1 for _ in range(TOKENS)])
        ordered = bits.sort(1).values
        distinct = (ordered[:, 1:] != ordered[:, :-1]).sum(1) >= DISTINCT - 1
        hashes = (bits * self.factors[: bits.shape[1]]).sum(1)
        return hashes ^ (hashes >> 29), distinct  # the low bits choose rows

    def _without_padding(self, values: Any) -> Any:
        """True where tokens are: the same text is padded to other lengths in other batches."""
        if values.shape[1] < 2:
            return values == values
        ends = values[:, -1][values[:, -1] == values[:, -2]]
        if not ends.numel():
            return values == values
        return (values != ends[0]).flip(1).cumsum(1).flip(1) > 0

    def _numbers(self, numbers: Any) -> Any:
        return self.torch.tensor(list(numbers), dtype=self.torch.int64, device="cpu")
