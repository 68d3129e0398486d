"""Which calls of a step work on whole matrices that hold nothing but a diagonal.

Element by element, the diagonal alone would do: to factorise it, to solve with it, to multiply by it. A
matrix counts if it was used so. Then making it, checking it and the backward of all that count as well:
hooks on the nodes of the results time the backward, and have no effect on gradients.
"""

from __future__ import annotations

from typing import Any, Dict, Iterable, List, Optional, Tuple

from ..containers import is_a
from ..user_frames import modules_between, user_line
from ..wrapping import Args, Kwargs
from .backward_time import time_backward
from .seen_calls import SeenCall, name_of

PRODUCTS = frozenset(
    "matmul __matmul__ __rmatmul__ mm bmm mv addmm addmv baddbmm linear einsum tensordot inner"
    " linalg_multi_dot multi_dot".split()
)
ADDING = frozenset("addmm addmv baddbmm".split())  # to a product, which is of the other two arguments
# What takes a square matrix, and its place; right-hand sides may well be diagonal.
SOLVING = dict.fromkeys(
    "cholesky cholesky_inverse det inverse linalg_cholesky linalg_cholesky_ex linalg_det linalg_eigh"
    " linalg_inv linalg_inv_ex linalg_matrix_exp linalg_matrix_power linalg_pinv linalg_slogdet linalg_solve"
    " linalg_solve_ex linalg_solve_triangular logdet matrix_exp matrix_power pinverse slogdet".split(),
    0,
)
SOLVING.update(cholesky_solve=1, triangular_solve=1)
MATRIX_NAMES = ("A", "input", "self")  # where the place is the first
MAKING = frozenset("diag diag_embed diagflat eye mul __mul__ __rmul__".split())
LEAST = 2  # rows of a matrix
COUNTED = 1 << 18  # elements at most that are looked at: of more matrices, evenly spread ones
KNOWN_MAX = 2_000  # matrices of one step that are remembered

Seen = Tuple[str, List[Any], List[Any], List[Any]]


class DiagonalCall(SeenCall):
    """One call that made, handled or used a diagonal matrix."""

    __slots__ = ("distribution", "matrices", "width")

    def __init__(self, name: str, ns: int, matrix: Any) -> None:
        super().__init__(name, ns)
        self.width = matrix.shape[-1]
        self.matrices = matrix.numel() // max(1, self.width * self.width)
        self.distribution = any(module.startswith("torch.distributions") for module in modules_between())
        self.line = user_line()


class DiagonalMatrix:
    """A diagonal matrix, with its factors and whatever is as large and was made from it."""

    __slots__ = ("calls", "used")

    def __init__(self) -> None:
        self.calls: List[DiagonalCall] = []
        self.used = False  # where an element-wise operation would do


class StepDiagonals:
    """The diagonal matrices of one looked-at step."""

    def __init__(self, torch: Any) -> None:
        self.torch = torch
        self.plain = (torch.Tensor, torch.nn.Parameter)
        self.weak_reference = torch.multiprocessing.reductions.StorageWeakRef
        self.matrices: List[DiagonalMatrix] = []
        self.known: Dict[int, Tuple[Any, DiagonalMatrix]] = {}  # by memory; while it lives

    @property
    def found(self) -> List[DiagonalCall]:
        """All calls on matrices that were used."""
        return [call for matrix in self.matrices if matrix.used for call in matrix.calls]

    def before(self, function: Any, args: Args, kwargs: Kwargs) -> Optional[Seen]:
        """(name, tensors, matrices, used matrices that go in) of a call that may be on a diagonal matrix."""
        name = name_of(function)
        multiplies = name in PRODUCTS
        values = (*args, *kwargs.values())
        given = [value for value in (flat(values) if multiplies else values) if self._is(value)]
        matrices = [value for value in given if self._is_matrix(value)]
        if multiplies:
            matrices = [value for value in factors(name, args, kwargs) if self._is_matrix(value)]
            multiplies = name != "einsum" or len(given) > 1  # of one, it sums or takes the diagonal
        elif name in SOLVING:
            place = SOLVING[name]
            names = [] if place else [kwargs[key] for key in MATRIX_NAMES if key in kwargs]
            matrices = [value for value in [*args[place : place + 1], *names] if self._is_matrix(value)]
        used = matrices if multiplies or name in SOLVING else []
        return (name, given, matrices, used) if matrices or name in MAKING else None

    def after(self, seen: Seen, result: Any, ns: int) -> None:
        """Remember a call on a diagonal matrix, and what it made."""
        name, given, matrices, used = seen
        results = [value for value in (result if is_a(result, tuple) else (result,)) if self._is(value)]
        try:
            made = [value for value in results if self._is_matrix(value)]
            if used:
                used = [value for value in used if is_diagonal(value)]
                if not used:
                    return
            owner = self._owner(used or matrices, bool(used))
            if owner is None and name in MAKING:
                made = [value for value in made if is_diagonal(value)]
                owner = self._new() if made else None
            if owner is None or not results:
                return
            call = DiagonalCall(name, ns, (used or matrices or made)[0])
            owner.calls.append(call)
            time_backward("diagonal_matrices", call, results, given)
            for value in made:
                if value.dtype is self.torch.bool or is_diagonal(value):
                    self._remember(value, owner)
        except RuntimeError:
            return  # a tensor of a transform, for one, tells no values

    def _is(self, value: Any) -> bool:
        return type(value) in self.plain and value.is_cpu and value.layout == self.torch.strided

    def _is_matrix(self, value: Any) -> bool:
        """Whether these are square matrices, or answers about their elements, in whatever shape."""
        if not self._is(value) or value.dim() < 2:
            return False
        return value.dtype is self.torch.bool or value.shape[-1] == value.shape[-2] >= LEAST

    def _new(self) -> DiagonalMatrix:
        matrix = DiagonalMatrix()
        self.matrices.append(matrix)
        return matrix

    def _owner(self, tensors: List[Any], used: bool) -> Optional[DiagonalMatrix]:
        """The matrix that these tensors are, or were made from; of several the first takes what is known."""
        owners: List[DiagonalMatrix] = []
        for tensor in tensors:
            alive, owner = self.known.get(tensor.untyped_storage()._cdata, (None, None))
            if alive is not None and owner is not None and not alive.expired() and owner not in owners:
                owners.append(owner)
        if used and not owners:
            owners = [self._new()]
            self._remember(tensors[0], owners[0])
        for owner in owners:
            owner.used = owner.used or used
        return owners[0] if owners else None

    def _remember(self, tensor: Any, owner: DiagonalMatrix) -> None:
        if len(self.known) < KNOWN_MAX:
            alive = self.weak_reference(tensor.untyped_storage())
            self.known[alive.cdata] = (alive, owner)


def flat(values: Iterable[Any]) -> List[Any]:
    """These, with what lists among them hold: `einsum` takes its factors as a list, too."""
    return [item for value in values for item in (value if is_a(value, (list, tuple)) else (value,))]


def factors(name: str, args: Args, kwargs: Kwargs) -> List[Any]:
    """What a product multiplies, among other arguments that are no tensors."""
    if name in ADDING:
        args, kwargs = args[1:], {key: value for key, value in kwargs.items() if key != "input"}
    return flat((*args, *(value for key, value in kwargs.items() if key != "out")))


def is_diagonal(tensor: Any) -> bool:
    """Whether each of these matrices, square and not all zeros, is zero off its diagonal."""
    if tensor.dim() < 2 or tensor.shape[-1] != tensor.shape[-2] or tensor.numel() == 0:
        return False
    matrices = tensor.detach()
    for place, stride in enumerate(matrices.stride()[:-2]):
        if stride == 0:  # all the same
            matrices = matrices.narrow(place, 0, 1)
    first = matrices[(0,) * (matrices.dim() - 2)]
    if bool(first[0, -1] != 0) or bool(first[-1, 0] != 0):  # as most other matrices show at once
        return False
    if matrices.dim() > 2:
        matrices = matrices[:: -(-matrices.numel() // COUNTED)]
    filled = int(matrices.count_nonzero())
    return 0 < filled == int(matrices.diagonal(dim1=-2, dim2=-1).count_nonzero())
