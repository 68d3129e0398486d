"""Which calls of a step factorise a matrix several times: it was expanded or broadcast, or came before."""

from __future__ import annotations

from math import prod
from typing import Any, Dict, List, Optional, Tuple

from ..containers import is_a
from ..user_frames import user_line
from ..wrapping import Args, Kwargs
from .backward_time import time_backward
from .seen_calls import SeenCall, name_of

FACTORISING = frozenset(
    "cholesky det inverse linalg_cholesky linalg_cholesky_ex linalg_det linalg_eigh linalg_inv linalg_inv_ex"
    " linalg_lu_factor linalg_lu_factor_ex linalg_matrix_exp linalg_pinv linalg_qr linalg_slogdet"
    " linalg_solve linalg_solve_ex linalg_svd logdet matrix_exp pinverse slogdet".split()
)
SOLVING = frozenset(("linalg_solve", "linalg_solve_ex"))
LEAST = 2  # copies, and rows of a matrix
ALIKE_MAX = 64  # matrices of one size that are told apart, in a pair of steps

Seen = Tuple[str, Any, Optional[Any]]


class RepeatedFactorization(SeenCall):
    """One call that factorised each of its matrices several times, or those of an earlier call."""

    __slots__ = ("again", "matrices", "times", "width")

    def __init__(self, name: str, ns: int, matrix: Any, matrices: int, times: int, again: bool) -> None:
        super().__init__(name, ns)
        self.matrices, self.times, self.again = matrices, times, again
        self.width = matrix.shape[-1]
        self.line = user_line()


class FactorisedMatrices:
    """What was factorised since a pair of steps began, told by the diagonal and a product with one vector.

    Each is read once, and no copy is kept: that takes less than to factorise it by far.
    """

    def __init__(self, torch: Any) -> None:
        self.torch = torch
        self.seals: Dict[Tuple[str, Any, Any], List[Any]] = {}

    def knows(self, name: str, matrix: Any) -> bool:
        """Whether an earlier call of this name had the same matrices."""
        values = matrix.detach()
        rows = values.reshape(-1, values.shape[-1])
        vector = self.torch.arange(1, rows.shape[-1] + 1, device=rows.device).sqrt().to(rows.dtype)
        product = rows.mv(vector).view(values.shape[:-1])  # which autocast leaves as it is
        seal = self.torch.stack([product, values.diagonal(dim1=-2, dim2=-1)])
        alike = self.seals.setdefault((name, values.shape, values.dtype), [])
        if any(self.torch.equal(one, seal) for one in alike):
            return True
        if len(alike) < ALIKE_MAX:
            alike.append(seal)
        return False


class StepFactorizations:
    """The factorisations of one looked-at step; `known` are those before it."""

    def __init__(self, torch: Any, known: FactorisedMatrices) -> None:
        self.torch = torch
        self.known = known
        self.plain = (torch.Tensor, torch.nn.Parameter)
        self.found: List[RepeatedFactorization] = []

    def before(self, function: Any, args: Args, kwargs: Kwargs) -> Optional[Seen]:
        """(name, matrices, right-hand sides) of a call that factorises."""
        name = name_of(function)
        if name not in FACTORISING:
            return None
        given = [*args, *(kwargs[key] for key in ("A", "input", "B") if key in kwargs)]
        matrix: Any = given[0] if given else None
        sides = given[1] if name in SOLVING and len(given) > 1 else None
        return (name, matrix, sides) if self._is(matrix) and matrix.dim() > 1 else None

    def after(self, seen: Seen, result: Any, ns: int) -> None:
        """Remember a call that did so several times for the same matrix, or again."""
        name, matrix, sides = seen
        if matrix.shape[-1] < LEAST or (sides is not None and not self._is(sides)):
            return
        matrices = prod(size for size, stride in zip(matrix.shape[:-2], matrix.stride()) if stride)
        times = prod(self._batch(matrix, sides)) // max(1, matrices)
        square = matrix.shape[-1] == matrix.shape[-2]
        again = square and self.known.knows(name, matrix)
        if times < LEAST and not again:
            return
        call = RepeatedFactorization(name, ns, matrix, matrices, times, again)
        self.found.append(call)
        results = [value for value in (result if is_a(result, tuple) else (result,)) if self._is(value)]
        time_backward("repeated_factorizations", call, results, [matrix, *([] if sides is None else [sides])])

    def _is(self, value: Any) -> bool:
        return type(value) in self.plain and value.is_cpu and value.layout == self.torch.strided

    def _batch(self, matrix: Any, sides: Any) -> Tuple[int, ...]:
        """The shape of the stack of matrices once it fits the right-hand sides, as for torch.linalg.solve."""
        stack = tuple(matrix.shape[:-2])
        if (
            sides is None or sides.dim() == 1 or sides.shape == matrix.shape[:-1]
        ):  # one vector for each matrix
            return stack
        return tuple(self.torch.broadcast_shapes(stack, sides.shape[:-2]))
