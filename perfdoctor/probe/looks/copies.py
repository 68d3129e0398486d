"""Which calls of torch's functions copy what the step before copied, too.

A call copies if it gives back the elements that it was given, in memory of its own: `clone`, `cat`, `float`.
It copies the same again if what it was given was copied in the step before, or was written by a copy then: a
buffer that grows by `cat`. What is in there may have changed since, as parameters do. A batch is another
tensor in each step, and a result that gets gradients is the model's work.
"""

from __future__ import annotations

import sys
import weakref
from typing import Any, Dict, FrozenSet, Iterable, List, Optional, Tuple

from ..containers import is_a
from ..module_parts import gradient_of
from ..user_frames import user_line
from ..wrapping import Args, Kwargs
from .constants import some_elements
from .seen_calls import SeenCall, name_of

COPYING = frozenset(
    "clone __deepcopy__ contiguous repeat tile cat concat concatenate hstack vstack dstack stack"
    " tensor as_tensor asarray copy_ to type float double half bfloat16".split()
)
# What was copied: the argument's place, and its names. The others take it first.
SOURCES = {"copy_": (1, ("src", "other"))}
FIRST = (0, ("input", "tensors", "data", "obj"))
KNOWN_MAX = 20_000  # sources of one step that are remembered
ITEMS_MAX = 1_000  # of a list that is copied, the middle ones
ITEMS_ASKED = 64  # of them, one step later: a buffer may have moved on by a few items meanwhile
MOSTLY = 0.5  # of what is copied was copied before


class CopyCall(SeenCall):
    """One call that copied the same again."""

    __slots__ = ("bytes", "gradients", "weights")

    def __init__(self, name: str, ns: int, size: int, weights: bool, gradients: bool) -> None:
        super().__init__(name, ns)
        self.bytes = size
        self.weights = weights  # most of it is parameters, or copies of them
        self.gradients = gradients  # most of it is theirs, or copies of those


class CopiedPart:
    """A tensor or an array that is copied: what it is known by one step later."""

    __slots__ = ("alive", "bytes", "key", "storage")

    def __init__(self, key: Any, alive: Any, size: int, storage: int = 0) -> None:
        self.key = key
        self.alive = alive  # a weak reference, for as long as which the key is nobody else's
        self.bytes = size
        self.storage = storage


class StepCopies:
    """The copies of one looked-at step, and with `earlier` those that repeat copies of that step."""

    def __init__(
        self,
        torch: Any,
        earlier: Optional[StepCopies] = None,
        weights: FrozenSet[int] = frozenset(),
        gradients: FrozenSet[int] = frozenset(),
    ) -> None:
        self.plain = (torch.Tensor, torch.nn.Parameter)  # others may hold more than their elements
        self.strided = torch.strided
        self.weak_reference = torch.multiprocessing.reductions.StorageWeakRef
        numpy = sys.modules.get("numpy")
        self.array: Any = numpy.ndarray if numpy is not None else ()
        self.earlier = earlier
        self.copied: Dict[Any, Any] = {}
        self.written: Dict[int, Any] = {}  # storages that copies returned
        self.found: List[CopyCall] = []
        self.weights = set(weights)  # storages of parameters, and those that copies of them were written to
        self.gradients = set(gradients)  # likewise
        if earlier is not None:
            self.weights |= earlier.weights
            self.gradients |= earlier.gradients

    def before(self, function: Any, args: Args, kwargs: Kwargs) -> Optional[Tuple[str, Any]]:
        """(name, what it is given) of a call that may copy."""
        name = name_of(function)
        if name not in COPYING:
            return None
        place, names = SOURCES.get(name, FIRST)
        given = [args[place]] if len(args) > place else [kwargs[key] for key in names if key in kwargs]
        return (name, given[0]) if given else None

    def after(self, seen: Tuple[str, Any], result: Any, ns: int) -> None:
        """Remember what was copied, and whether that was so in the step before."""
        name, source = seen
        try:
            if (
                not self._is_tensor(result)
                or result.grad_fn is not None
                or self._memory(source) == result.data_ptr()
            ):
                return
            parts = [part for item in _middle(source, ITEMS_MAX) for part in self._part(item)]
            written = self.weak_reference(result.untyped_storage())
        except RuntimeError:
            return  # a tensor of a transform, for one, has no memory
        size = result.numel() * result.element_size()
        weights, gradients = (
            _mostly(parts, (part for part in parts if part.storage in known))
            for known in (self.weights, self.gradients)
        )
        if self.earlier is not None and self.earlier.holds(parts):
            call = CopyCall(name, ns, size, weights, gradients)
            call.line = user_line()
            self.found.append(call)
        if len(self.copied) < KNOWN_MAX:
            self.copied.update((part.key, part.alive) for part in parts)
            if name != "copy_":
                self.written[written.cdata] = written
                for known, held in ((weights, self.weights), (gradients, self.gradients)):
                    if known:
                        held.add(written.cdata)

    def holds(self, parts: List[CopiedPart]) -> bool:
        """Whether most of this was copied, or written by a copy, in this step."""
        asked = _middle(parts, ITEMS_ASKED)
        return _mostly(asked, (part for part in asked if part.storage in self.written or self._copied(part)))

    def _copied(self, part: CopiedPart) -> bool:
        return part.key in self.copied and _is_there(self.copied[part.key])

    def _is_tensor(self, value: Any) -> bool:
        return (
            type(value) in self.plain and value.is_cpu and value.layout == self.strided and value.numel() > 0
        )

    def _memory(self, source: Any) -> Optional[int]:
        """Where one tensor or array begins in memory."""
        if is_a(source, self.array):
            return int(source.ctypes.data)
        return int(source.data_ptr()) if self._is_tensor(source) else None

    def _part(self, value: Any) -> List[CopiedPart]:
        """A tensor or an array as a part; nothing for whatever else is copied, such as numbers."""
        if is_a(value, self.array):
            owner = value
            while isinstance(owner.base, self.array):
                owner = owner.base
            return [
                CopiedPart((id(owner), value.ctypes.data, value.nbytes), weakref.ref(owner), value.nbytes)
            ]
        if not self._is_tensor(value):
            return []
        storage, size = value.untyped_storage(), value.numel() * value.element_size()
        if not storage.resizable():  # numpy's memory, and each `from_numpy` makes a storage of its own
            return [CopiedPart((value.data_ptr(), size, some_elements(value)), None, size)]
        alive = self.weak_reference(storage)
        return [CopiedPart((alive.cdata, value.data_ptr(), size), alive, size, alive.cdata)]


def storages_of(torch: Any, optimizers: Iterable[Any]) -> Tuple[FrozenSet[int], FrozenSet[int]]:
    """The memory of all parameters of these optimizers, and of their gradients: see `CopiedPart.storage`.

    Gradients have memory that lasts from step to step only where they are set to zero and not dropped.
    """
    groups = [group for optimizer in optimizers for group in optimizer.param_groups]
    parameters = [parameter for group in groups for parameter in group["params"]]
    return _storages(torch, parameters), _storages(
        torch, [gradient_of(parameter) for parameter in parameters]
    )


def _storages(torch: Any, tensors: Iterable[Any]) -> FrozenSet[int]:
    found = set()
    for one in tensors:
        if type(one) in (torch.Tensor, torch.nn.Parameter) and one.layout == torch.strided:
            found.add(one.untyped_storage()._cdata)
    return frozenset(found)


def _mostly(parts: List[CopiedPart], some: Iterable[CopiedPart]) -> bool:
    """Whether most bytes of these parts are those of some of them."""
    return bool(sum(part.bytes for part in some) > MOSTLY * sum(part.bytes for part in parts))


def _is_there(alive: Any) -> bool:
    """Whether what a weak reference is to still exists."""
    if alive is None:
        return True
    return alive() is not None if isinstance(alive, weakref.ref) else not alive.expired()


def _middle(items: Any, most: int) -> Any:
    """The middle ones of a list; anything else as a list of its own."""
    if not is_a(items, (list, tuple)):
        return [items]
    begin = max(0, (len(items) - most) // 2)
    return items[begin : begin + most]
