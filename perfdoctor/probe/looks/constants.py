"""Which calls of torch's functions in a step get the same as in another step, and give the same.

A call is constant if all that goes in is the same: tensors that nobody has changed since, by identity and
version, numbers, or results of constant calls. On top of that, some elements of its result are compared.
"""

from __future__ import annotations

import re
import weakref
from typing import Any, Dict, List, Optional, Tuple

from ..containers import is_a
from ..user_frames import user_line
from ..wrapping import Args, Kwargs
from .seen_calls import SeenCall, name_of
from .transforms import is_wrapped

CALLS_MAX = 4_000  # with constant inputs in one step: a validation inside must not fill memory
LEAVES_MAX = 20_000  # tensors from outside that are remembered
ITEMS_MAX = 1_000  # of a list among the arguments
DEPTH = 4  # of lists in lists
SHOWN = 64  # elements of a result that are compared, about
# What draws numbers, or returns memory as it is.
UNSTEADY = re.compile(
    "rand|empty|normal|bernoulli|multinomial|dropout|poisson|exponential|uniform|geometric|cauchy|gumbel|rrelu"
)


class UnknownArgument(Exception):
    """An argument of which one cannot tell whether it is the same as before."""


class OuterTensor:
    """A tensor that was there before the look: the same as long as its version is."""

    __slots__ = ("alive", "serial", "version")

    def __init__(self, tensor: Any, serial: int) -> None:
        self.alive: Any = weakref.ref(tensor)
        self.version = tensor._version
        self.serial = serial


class ConstantCall(SeenCall):
    """One call with constant inputs."""

    __slots__ = ("key", "reused", "shows")

    def __init__(self, key: int, name: str, ns: int) -> None:
        super().__init__(name, ns)
        self.key = key
        self.reused = True  # False: what it returned was written over, so that each step needs its own
        self.shows: Any = None


class ConstantResult:
    """A tensor that constant calls returned or filled."""

    __slots__ = ("alive", "calls", "key", "version")

    def __init__(self, tensor: Any, key: int, calls: List[ConstantCall]) -> None:
        self.alive: Any = weakref.ref(tensor)
        self.version = tensor._version
        self.key = key
        self.calls = calls

    def give_up(self) -> None:
        """Each step needs a tensor of its own here."""
        for call in self.calls:
            call.reused = False


class OuterTensors:
    """Tensors from outside, in all looks of a process, each version with a number of its own."""

    def __init__(self) -> None:
        self.known: Dict[int, OuterTensor] = {}
        self.serial = 0

    def number(self, tensor: Any) -> int:
        """The same number for the same tensor, unless it was changed."""
        leaf = self.known.get(id(tensor))
        if leaf is None or leaf.alive() is not tensor or leaf.version != tensor._version:
            if len(self.known) >= LEAVES_MAX:
                self.known = {key: leaf for key, leaf in self.known.items() if leaf.alive() is not None}
            if len(self.known) >= LEAVES_MAX:
                raise UnknownArgument
            self.serial += 1
            leaf = self.known[id(tensor)] = OuterTensor(tensor, self.serial)
        return leaf.serial


class StepCalls:
    """The calls of one looked-at step."""

    def __init__(self, torch: Any, leaves: OuterTensors, before: Optional[Dict[int, Any]] = None) -> None:
        self.torch = torch
        self.leaves = leaves
        self.keys = before  # of calls that may be the same as in the step before; None: any
        self.plain = (torch.Tensor, torch.nn.Parameter)  # others may hold more than their elements
        self.described = (torch.dtype, torch.device, torch.layout, torch.memory_format)
        self.strided = torch.strided
        self.calls = 0
        self.constant: List[ConstantCall] = []
        self.written_over: List[
            Tuple[ConstantCall, List[ConstantCall]]
        ] = []  # (what wrote, what had made it)
        self.results: Dict[int, ConstantResult] = {}
        self.last: Optional[ConstantCall] = None  # the call before this one, if it was constant
        self.last_ns = 0  # that it took by itself
        self.gap_ns = 0  # since it

    def before(
        self, function: Any, args: Args, kwargs: Kwargs, gap_ns: int
    ) -> Tuple[Optional[int], Any, int]:
        """(key, tensor that the call may change, its version); without a key it is not constant."""
        self.calls += 1
        self.gap_ns = gap_ns
        changes: Any = kwargs.get("out", args[0] if args else None)
        if type(changes) not in self.plain or changes.is_inference():
            changes = None
        version = -1 if changes is None else changes._version
        key = None
        if len(self.constant) < CALLS_MAX:
            name = name_of(function)
            try:
                if not UNSTEADY.search(name):
                    key = hash((name, self._part(args, DEPTH), self._part(kwargs, DEPTH)))
            except (UnknownArgument, RuntimeError):
                pass  # a tensor of a transform, for one, has no version
        return key, changes, version

    def after(self, seen: Tuple[Optional[int], Any, int], function: Any, result: Any, ns: int) -> None:
        """Remember what a constant call returned or changed; forget what another one has."""
        key, changes, version = seen
        last, self.last = self.last, None
        changed = changes is not None and changes._version != version
        known = self.results.get(id(changes)) if changed else None
        if known is not None and known.alive() is not changes:
            known = None
        if key is None:
            if known is not None:
                known.give_up()
                del self.results[id(changes)]
            return
        call = ConstantCall(key, name_of(function), ns)
        if changed:
            if known is not None:
                self.written_over.append((call, known.calls))
            self._add(changes, key, [*(known.calls if known is not None else ()), call])
            returned = changes
        else:
            returned = result
            for place, tensor in enumerate(result if is_a(result, (list, tuple)) else [result]):
                if type(tensor) in self.plain and tensor is not changes and not tensor.requires_grad:
                    self._add(tensor, hash((key, place)), [call])
        if self.keys is not None and key not in self.keys:
            return
        call.shows = self._shows(returned)
        if call.shows is not None:
            call.line = user_line()
            if last is not None and call.line is not None and last.line == call.line:
                # memory of what came between is given back then, and goes as well; that takes no longer than
                # the calls: more is other work, as between the turns of a line that ends an item
                call.ns += min(self.gap_ns, max(ns, self.last_ns))
            self.last, self.last_ns = call, ns
            self.constant.append(call)

    def close(self) -> None:
        """The step is over: results that were changed unseen, or get gradients, are needed in each step."""
        for result in self.results.values():
            tensor = result.alive()
            if tensor is not None and (tensor._version != result.version or tensor.requires_grad):
                result.give_up()
        self.results = {}

    def same(self, shows: Dict[int, Any]) -> List[ConstantCall]:
        """The constant calls that came out as `shows` says, by their keys."""
        missing = object()
        same = [call for call in self.constant if shows.get(call.key, missing) == call.shows]
        known = set(map(id, same))
        for call, before in self.written_over:
            if id(call) not in known:
                for one in before:
                    one.reused = False
        return same

    def by_key(self) -> Dict[int, Any]:
        """What came out of each constant call."""
        return {call.key: call.shows for call in self.constant}

    def _add(self, tensor: Any, key: int, calls: List[ConstantCall]) -> None:
        if not tensor.is_inference():
            self.results[id(tensor)] = ConstantResult(tensor, key, calls)

    def _part(self, value: Any, depth: int) -> Any:
        """Something equal for equal arguments. Raises UnknownArgument."""
        kind = type(value)
        if kind in self.plain:
            return self._tensor(value)
        if value is None or value is Ellipsis or kind in (bool, int, float, complex, str):
            return kind, value
        if kind is slice:
            return "slice", *(self._part(part, depth) for part in (value.start, value.stop, value.step))
        if kind in self.described:
            return str(value)
        if depth and is_a(value, (list, tuple)) and len(value) <= ITEMS_MAX:
            return tuple([self._part(item, depth - 1) for item in value])
        if depth and kind is dict:
            return tuple([(str(name), self._part(item, depth - 1)) for name, item in value.items()])
        raise UnknownArgument

    def _tensor(self, tensor: Any) -> Tuple[str, int]:
        if tensor.requires_grad or tensor.is_inference():
            raise UnknownArgument
        result = self.results.get(id(tensor))
        if result is None or result.alive() is not tensor:
            return "leaf", self.leaves.number(tensor)
        if result.version != tensor._version:  # through a view, or in a list
            raise UnknownArgument
        return "result", result.key

    def _shows(self, result: Any) -> Optional[int]:
        """A number that some elements of the first tensor in a result give; None without any on the CPU."""
        while is_a(result, (list, tuple)):
            result = result[0] if result else None
        if type(result) not in self.plain or not result.is_cpu or result.requires_grad:
            return None
        if is_wrapped(self.torch, result):
            return None
        if result.layout != self.strided:
            result = result._values() if result.is_sparse else result.values()
        return some_elements(result) if result.numel() else None


def some_elements(tensor: Any) -> int:
    """A number that a tensor's shape and some of its elements give."""
    a_side = max(1, int(SHOWN ** (1 / max(1, tensor.dim()))))
    some = tensor.detach()[tuple(slice(None, None, max(1, size // a_side)) for size in tensor.shape)]
    return hash((tuple(tensor.shape), str(some.tolist())))
