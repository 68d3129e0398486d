"""Which calls of a step multiply by the rows of a Fourier transform, where a fast transform would do.

A kernel counts by its values: it gets no gradient, lies in the same memory in both steps, and nearly each
of its rows is a sinusoid, in a window perhaps, whose frequencies differ evenly.
"""

from __future__ import annotations

from math import log2
from typing import Any, Dict, List, Optional, Set, Tuple

from ..containers import is_a
from ..user_frames import user_line
from ..wrapping import Args, Kwargs
from . import diagonals
from .backward_time import time_backward
from .seen_calls import SeenCall, name_of

CONVOLUTION = "conv1d"
# Of two factors; where the kernel is the first, its rows are as long as its last dimension.
PRODUCTS = frozenset("matmul __matmul__ __rmatmul__ mm mv linear einsum".split())
LEAST_TAPS = 64  # of shorter rows a fast transform takes as long: bench/fourier_products.py
ROWS_SHARE = 0.25  # of the taps: of fewer frequencies the fast transform makes too many others
ROWS_SEEN = 64  # evenly spread; of evenly spaced frequencies these are evenly spaced, too
# Bins on each side of the largest: a window of Hann's over half the taps has that many. A sinusoid between
# two bins has 95.3 % of its energy there, and no fast transform has it: each has whole bins only.
NEIGHBOURS, ENERGY_SHARE = 4, 0.97
NEARLY_ALL = 0.9
# Real and imaginary parts have the same frequencies, as have those of the bins above half the rate.
DISTINCT_SHARE = 0.2


class FourierProduct(SeenCall):
    """One product with the rows of a Fourier transform."""

    __slots__ = ("hop", "rows", "taps")

    def __init__(self, name: str, ns: int, kernel: Any, hop: int) -> None:
        super().__init__(name, ns)
        self.rows, self.taps = kernel.shape
        self.hop = hop
        self.line = user_line()

    @property
    def operations_left(self) -> float:
        """The share of its operations that a fast transform has: 5 n log2 n, of 2 n for each row."""
        return float(min(1.0, 5 * log2(self.taps) / (2 * self.rows)))


class PairTransforms:
    """The products with Fourier rows of two looked-at steps."""

    def __init__(self, torch: Any, judged: Optional[Dict[Tuple[int, ...], bool]] = None) -> None:
        self.torch = torch
        self.plain = (torch.Tensor, torch.nn.Parameter)
        self.found: List[FourierProduct] = []  # in the second step
        self.is_second = False
        self.first: Set[Tuple[int, ...]] = set()  # kernels of the first step
        self.judged = {} if judged is None else judged  # kernels, those of pairs before included

    def before(self, function: Any, args: Args, kwargs: Kwargs) -> Optional[Tuple[str, List[Any], List[Any]]]:
        """(name, tensors that go in, kernels that may be Fourier rows)."""
        name = name_of(function)
        if name != CONVOLUTION and name not in PRODUCTS:
            return None
        given = diagonals.flat((*args, *kwargs.values()))
        tensors = [value for value in given if type(value) in self.plain]
        kernels = []
        for place, tensor in enumerate(tensors[:2]):
            if self._may_be(tensor):
                kernels += rows_of(name, place, tensor, args, kwargs)
        try:
            keys = {key_of(rows): (rows, hop) for rows, hop in kernels if fits(rows)}
            if not self.is_second:  # whose calls are told: what judging takes would cut it short
                for rows, _ in keys.values():
                    self._is_fourier(rows)
        except RuntimeError:
            return None  # a tensor of a transform, for one, has no memory
        if not self.is_second:
            self.first.update(keys)
        kernels = [kernel for key, kernel in keys.items() if self.is_second and key in self.first]
        return (name, tensors, kernels) if kernels else None

    def after(self, seen: Tuple[str, List[Any], List[Any]], result: Any, ns: int) -> None:
        """Keep the call, if one of its kernels is what it may be."""
        name, given, kernels = seen
        if type(result) not in self.plain:
            return
        try:
            rows, hop = next((kernel for kernel in kernels if self._is_fourier(kernel[0])), (None, 0))
        except RuntimeError:
            return  # a tensor of a transform, for one, tells no values
        if rows is not None:
            call = FourierProduct(name, ns, rows, hop)
            self.found.append(call)
            time_backward("fourier_products", call, [result], given)

    def _may_be(self, tensor: Any) -> bool:
        return (
            not tensor.requires_grad
            and not tensor.is_inference()  # these have no version
            and tensor.is_cpu
            and tensor.layout == self.torch.strided
            and (tensor.is_floating_point() or tensor.is_complex())
        )

    def _is_fourier(self, rows: Any) -> bool:
        key = key_of(rows)
        if key not in self.judged:
            self.judged[key] = are_sinusoids(self.torch, rows)
        return self.judged[key]


def key_of(rows: Any) -> Tuple[int, ...]:
    """What tells a kernel in one step from others; another if its values were written in between."""
    return (rows.data_ptr(), rows._version, *rows.shape, *rows.stride())


def fits(rows: Any) -> bool:
    """Whether they are as many and as long as a transform's."""
    return bool(rows.shape[1] >= LEAST_TAPS and rows.shape[0] >= ROWS_SHARE * rows.shape[1])


def rows_of(name: str, place: int, tensor: Any, args: Args, kwargs: Kwargs) -> List[Tuple[Any, int]]:
    """The ways in which a factor at this place may be (rows of taps, hop): none where it is no kernel."""
    if name == CONVOLUTION:
        if place != 1 or tensor.dim() != 3 or tensor.shape[1] != 1:
            return []
        stride = args[3] if len(args) > 3 else kwargs.get("stride", 1)
        return [(tensor[:, 0], int(stride[0] if is_a(stride, (list, tuple)) else stride))]
    if tensor.dim() != 2:
        return []
    if name == "einsum":
        return [(tensor, 0), (tensor.t(), 0)]
    last = place == 0 or name == "linear"  # the dimension that the product sums over
    return [(tensor if last else tensor.t(), 0)] if name != "linear" or place == 1 else []


def are_sinusoids(torch: Any, rows: Any) -> bool:
    """Whether nearly each of these rows is a sinusoid, and their frequencies differ evenly."""
    apart = -(-rows.shape[0] // ROWS_SEEN) | 1  # odd: of a cosine transform every other row is between bins
    some = rows.detach()[::apart]
    some = (some.real if some.is_complex() else some).float()
    energy = torch.fft.rfft(some).abs().square()
    total = energy.sum(1)
    some_energy = total > 1e-6 * total.max()  # the sine of frequency 0 has none
    energy, total = energy[some_energy], total[some_energy]
    if len(total) < NEARLY_ALL * len(some) - 1 or len(total) < 2:
        return False
    peaks = energy.argmax(1)
    around = peaks[:, None] + torch.arange(-NEIGHBOURS, NEIGHBOURS + 1)
    inside = (around >= 0) & (around < energy.shape[1])
    near = (energy.gather(1, around.clamp(0, energy.shape[1] - 1)) * inside).sum(1)
    steps = peaks.diff().abs()
    is_even = (steps - steps.median()).abs() <= 1
    return (
        float((near >= ENERGY_SHARE * total).float().mean()) >= NEARLY_ALL
        and float(is_even.float().mean()) >= NEARLY_ALL
        and len(peaks.unique()) >= DISTINCT_SHARE * len(peaks)
    )
