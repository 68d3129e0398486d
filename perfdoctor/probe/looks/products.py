"""Which products in a step have a matrix that is mostly zero, so that indexing would do as well.

Of each long product, the elements that are not zero are counted, in matrices that get no gradient: what is
learned, or was computed from that, is dense in general even where it happens to hold zeros.
"""

from __future__ import annotations

import weakref
from typing import Any, Dict, List, Optional, Tuple

from ..user_frames import user_line
from ..wrapping import Args, Kwargs
from . import diagonals
from .seen_calls import SeenCall, name_of

# Each is one that `diagonals` knows too: of one call, only one of both is to tell.
PRODUCTS = frozenset(
    "matmul __matmul__ __rmatmul__ mm bmm mv addmm addmv baddbmm linear einsum tensordot inner".split()
)
# What one-hot matrices are made by, step by step; views and casts of them are the same matrix.
MAKING = frozenset(
    "one_hot zeros new_zeros zeros_like eye scatter_ scatter index_fill_ __setitem__ __getitem__ to type"
    " float double half bfloat16 t transpose permute T.__get__ mT.__get__ view reshape flatten".split()
)
LEAST_NS = 20_000  # a product that takes less is not worth the count
LEAST = 4_096  # elements of such a matrix
COUNTED = 1 << 20  # elements at most that are looked at: of a larger matrix, evenly spread rows
# At most this share is not zero. A sparse product takes an eighth of the time then, or less, which leaves
# room for making the matrix sparse; an index needs nothing made.
MOSTLY, MOSTLY_ONE_HOT = 0.02, 0.05
MADE_MAX = 2_000  # tensors of one step whose making is remembered


class ZeroProduct(SeenCall):
    """One product with a matrix that is mostly zero."""

    __slots__ = ("columns", "nonzero_share", "one_hot", "rows")

    def __init__(self, name: str, ns: int, share: float, one_hot: bool) -> None:
        super().__init__(name, ns)
        self.nonzero_share = share
        self.one_hot = one_hot
        self.rows = self.columns = 0


class MadeMatrix:
    """What it took to make a matrix, whatever views and casts there are of it."""

    __slots__ = ("ns",)

    def __init__(self) -> None:
        self.ns = 0


class StepProducts:
    """The products of one looked-at step."""

    def __init__(self, torch: Any) -> None:
        self.torch = torch
        self.plain = (torch.Tensor, torch.nn.Parameter)
        self.found: List[ZeroProduct] = []
        self.made: Dict[int, Tuple[Any, MadeMatrix]] = {}  # by identity; while it lives

    def before(self, function: Any, args: Args, kwargs: Kwargs) -> Optional[Tuple[str, List[Any]]]:
        """(name, tensors that go in) of a call that multiplies, or may make a one-hot matrix."""
        name = name_of(function)
        if name not in PRODUCTS and name not in MAKING:
            return None
        given = diagonals.factors(name, args, kwargs)
        return name, [value for value in given if type(value) in self.plain]

    def after(self, seen: Tuple[str, List[Any]], result: Any, ns: int) -> None:
        """Remember what was made, or see whether a factor is mostly zero."""
        name, tensors = seen
        if name in MAKING:
            self._remember(tensors, tensors[0] if result is None and tensors else result, ns)
        elif ns >= LEAST_NS and type(result) in self.plain:
            for factor in tensors:
                product = self._with(factor, name, tensors, ns)
                if product is not None:
                    product.backward_ns = ns if result.requires_grad else 0
                    product.line = user_line()
                    self.found.append(product)
                    return

    def _remember(self, tensors: List[Any], result: Any, ns: int) -> None:
        if type(result) not in self.plain or result.requires_grad or len(self.made) >= MADE_MAX:
            return
        making = next(filter(None, map(self._making, tensors)), None) or MadeMatrix()
        making.ns += ns
        self.made[id(result)] = (weakref.ref(result), making)

    def _making(self, tensor: Any) -> Optional[MadeMatrix]:
        alive, making = self.made.get(id(tensor), (None, None))
        return making if alive is not None and alive() is tensor else None

    def _with(self, factor: Any, name: str, factors: List[Any], ns: int) -> Optional[ZeroProduct]:
        """The product, if this factor of it is mostly zero, and none of its factors is a diagonal."""
        if (
            factor.requires_grad
            or not factor.is_cpu
            or factor.layout != self.torch.strided
            or not factor.is_floating_point()
            or factor.dim() < 2
            or factor.numel() < LEAST
            or (factor.dim() > 2 and not factor.is_contiguous())  # `flatten` would copy all of it
        ):
            return None
        try:
            rows = factor.flatten(0, -2)
            if rows.stride(0) < rows.stride(1):  # a transposed view: as it lies in memory, its rows are whole
                rows = rows.t()
            apart = -(-factor.numel() // COUNTED)
            some = rows[::apart]
            filled = some != 0
            share = float(filled.sum()) / some.numel()
            if not 0.0 < share <= MOSTLY_ONE_HOT:
                return None
            one_hot = self._is_one_hot(some, filled, whole=apart == 1)
            if share > MOSTLY and not one_hot:
                return None
            if any(map(self._is_diagonal, factors)):
                return None  # told as such
        except RuntimeError:
            return None  # a tensor of a transform, for one, tells no values
        making = self._making(factor) if one_hot else None
        if making is not None:
            ns += making.ns
            making.ns = 0  # a second product with the same matrix needs none made
        product = ZeroProduct(name, ns, share, one_hot)
        product.rows, product.columns = rows.shape
        return product

    def _is_diagonal(self, factor: Any) -> bool:
        plain = factor.is_cpu and factor.layout == self.torch.strided
        return plain and diagonals.is_diagonal(factor)

    def _is_one_hot(self, some: Any, filled: Any, whole: bool) -> bool:
        """Whether each row has one element that is not zero, a one; of a whole matrix, or each column."""
        if not bool((some[filled] == 1).all()):
            return False
        return bool((filled.sum(1) <= 1).all()) or (whole and bool((filled.sum(0) <= 1).all()))
