"""Distances and similarities of all pairs that a step takes element by element.

Two tensors are broadcast against each other, `x[:, None] - y[None]`, and what comes of it is summed up over
the numbers of each pair. A product of matrices gives the same, and makes nothing as large in between.
"""

from __future__ import annotations

import weakref
from typing import Any, Dict, List, Optional, Tuple

from ..containers import is_a
from ..user_frames import user_line
from ..wrapping import Args, Kwargs
from .backward_time import time_backward
from .seen_calls import SeenCall, name_of

COSINE, PRODUCT, DISTANCE, ABSOLUTE = "cosine", "product", "distance", "absolute"
WHOLE = {"cosine_similarity": COSINE, "pairwise_distance": DISTANCE}  # which broadcast and sum by themselves
BEGINNING = {
    **dict.fromkeys("sub __sub__ __rsub__ subtract rsub".split(), DISTANCE),
    **dict.fromkeys("mul __mul__ __rmul__ multiply".split(), PRODUCT),
}
ABSOLUTES = frozenset("abs abs_ __abs__".split())
# What may lie between: it changes no shape.
BETWEEN = ABSOLUTES | frozenset(
    "pow __pow__ pow_ float_power square square_ neg __neg__ mul __mul__ mul_ div div_ __truediv__ float"
    " double".split()
)
SUMMING = frozenset("sum mean norm linalg_norm linalg_vector_norm".split())
LEAST = 1 << 18  # elements of what is made
MANY = 8  # times as large as either tensor
WIDTH = 8  # numbers of a pair: of fewer, a product of matrices is no faster
KNOWN_MAX = 500  # tensors of one step that are remembered

Seen = Tuple[str, List[Any], Any]


class PairCall(SeenCall):
    """What one broadcast and all that follows it up to the sum took."""

    __slots__ = ("kind", "pairs", "summed", "width")

    def __init__(self, name: str, kind: str, shape: Any) -> None:
        super().__init__(name, 0)
        self.kind = kind
        self.width = int(shape[-1])
        self.pairs = int(shape.numel()) // max(1, self.width)
        self.summed = False
        self.line = user_line()


class StepPairs:
    """The distances and similarities of all pairs of one looked-at step."""

    def __init__(self, torch: Any) -> None:
        self.torch = torch
        self.plain = (torch.Tensor, torch.nn.Parameter)
        self.calls: List[PairCall] = []
        self.known: Dict[int, Tuple[Any, PairCall]] = {}  # by identity; while it lives

    @property
    def found(self) -> List[PairCall]:
        """Those that were summed up."""
        return [call for call in self.calls if call.summed]

    def before(self, function: Any, args: Args, kwargs: Kwargs) -> Optional[Seen]:
        """(name, tensors that go in, what it belongs to or the shape that it makes), if it may count."""
        name = name_of(function)
        if name not in WHOLE and name not in BEGINNING and name not in BETWEEN and name not in SUMMING:
            return None
        given = [value for value in (*args, *kwargs.values()) if type(value) in self.plain]
        known = next(filter(None, map(self._known, given)), None)
        if known is not None and name in SUMMING:
            return (name, given, known) if _sums_last(args, kwargs, given[0].dim()) else None
        if known is not None and name in BETWEEN:
            return name, given, known
        if name in WHOLE or name in BEGINNING:
            shape = self._pairs_of(given)
            last = kwargs.get("dim", -1 if len(args) < 3 else args[2])
            if shape is not None and (name != "cosine_similarity" or last in (-1, len(shape) - 1)):
                return name, given, shape
        return None

    def after(self, seen: Seen, result: Any, ns: int) -> None:
        """Add up what a call took, and remember what it made."""
        name, given, known = seen
        if type(result) not in self.plain:
            return
        call = known
        if not isinstance(known, PairCall):
            call = PairCall(name, WHOLE.get(name) or BEGINNING[name], known)
            self.calls.append(call)
        if name in ABSOLUTES:
            call.kind = ABSOLUTE
        call.ns += ns
        call.summed = call.summed or name in SUMMING or name in WHOLE
        time_backward("broadcast_distances", call, [result], given)
        if not call.summed and len(self.known) < KNOWN_MAX:
            self.known[id(result)] = (weakref.ref(result), call)

    def _known(self, tensor: Any) -> Optional[PairCall]:
        alive, call = self.known.get(id(tensor), (None, None))
        return call if alive is not None and alive() is tensor else None

    def _pairs_of(self, given: List[Any]) -> Optional[Any]:
        """The shape that two tensors are broadcast to, where that is pairs of their last dimension."""
        if len(given) != 2:
            return None
        one, other = given
        if not (self._is(one) and self._is(other)) or not one.shape[-1] == other.shape[-1] >= WIDTH:
            return None
        try:
            shape = self.torch.broadcast_shapes(one.shape, other.shape)
        except RuntimeError:
            return None  # the script's own error
        large = max(one.numel(), other.numel())
        return shape if LEAST <= shape.numel() >= MANY * large else None

    def _is(self, value: Any) -> bool:
        plain = value.is_cpu and value.layout == self.torch.strided and value.is_floating_point()
        return bool(plain) and value.dim() > 1


def _sums_last(args: Args, kwargs: Kwargs, dimensions: int) -> bool:
    """Whether the last dimension is summed up, and no other."""
    given = [value for value in (*args[1:], kwargs.get("dim"), kwargs.get("axis")) if value is not None]
    places = [value[0] if is_a(value, (list, tuple)) and len(value) == 1 else value for value in given]
    return any(type(place) is int and place in (-1, dimensions - 1) for place in places[-2:])
