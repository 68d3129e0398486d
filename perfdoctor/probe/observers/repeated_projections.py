"""Attention that projects the same keys and values in call after call, each with another query.

A decoder that goes step by step over what was encoded once does. Its calls have different arguments, and so
none of them repeats another; what is made of keys and values is the same each time.
"""

from __future__ import annotations

import weakref
from typing import Any, Dict, List, Optional, Tuple

from ..looks.repeats import Call, CalledAgain, GraphUse
from ..looks.transforms import is_wrapped
from ..loss_graph import compiles_backward
from ..observer import Watch, observer
from ..patch import guarded
from ..user_frames import user_lines
from ..wrapping import Args, Kwargs

NAME = "repeated_projections"
GIVEN = ("query", "key", "value")
LEAST = 0.1  # of a call's multiply-adds: below that they are not what it takes


class ProjectedKeys:
    """Keys and values that one module was given, and the queries it was given with them."""

    __slots__ = ("alive", "first", "queries")

    def __init__(self, first: Call, tensors: List[Any]) -> None:
        self.first = first
        self.alive = [weakref.ref(tensor) for tensor in tensors]
        self.queries: Dict[Tuple[int, int], Any] = {}  # weak references, by identity and version

    def are(self, module: Any, tensors: List[Any]) -> bool:
        """Whether they are these, and not others in their place."""
        same = all(weak() is tensor for weak, tensor in zip(self.alive, tensors))
        return same and self.first.module is module

    def asks(self, query: Any) -> bool:
        """Whether a query is none of those before: a call with the same one is repeated as a whole."""
        key = id(query), query._version
        known = self.queries.get(key)
        if known is not None and known() is query:
            return False
        self.queries[key] = weakref.ref(query)
        return True


class RepeatedProjections:
    """The attention of one sampled step; what is found is told with calls that are repeated as a whole."""

    def __init__(self, watch: Watch) -> None:
        self.torch = watch.torch
        self.schedule = watch.steps.schedule
        self.attention = watch.torch.nn.MultiheadAttention
        self.plain = (watch.torch.Tensor, watch.torch.nn.Parameter)  # others may hold no elements themselves
        self.projected: Dict[Any, ProjectedKeys] = {}
        self.current: Optional[Tuple[Call, ProjectedKeys, float]] = None
        self.called = guarded(NAME, self._called)
        self.returned = guarded(NAME, self._returned)
        self.ended = guarded(NAME, self._ended)

    def _called(self, call: Call, args: Args, kwargs: Kwargs) -> None:
        """A call begins: see whether it is attention to what it was given before."""
        module = args[0]
        if not isinstance(module, self.attention) or call.versions is None or not self._is_as_written(module):
            return
        given: List[Any] = [
            args[at] if at < len(args) else kwargs.get(name) for at, name in enumerate(GIVEN, 1)
        ]
        if not all(map(self._is_plain, given)):
            return
        query, *tensors = given
        part = _part(module, *given)
        if part < LEAST:
            return
        recording = self.torch.is_grad_enabled()
        # each backward frees the graph that it goes through: what it has used cannot be kept for the next
        graph = self.schedule.backwards if recording else None
        content = [(id(tensor), tensor._version) for tensor in tensors]
        key = (id(module), module.training, call.versions, recording, graph, *content)
        known = self.projected.get(key)
        if known is None or not known.are(module, tensors):
            known = self.projected[key] = ProjectedKeys(call, tensors)
        if known.asks(query):
            self.current = call, known, part

    def _returned(self, call: Call, result: Any) -> None:
        """A call has ended; inside of one that is repeated as a whole, it is needless with it."""
        if self.current is None or self.current[0] is not call:
            return
        _, known, part = self.current
        self.current = None
        if result is None:
            return
        call.lines = user_lines()
        if call.recording and call.use is None and not compiles_backward():
            call.use = GraphUse(None)
        if known.first is not call:
            call.inside.append(CalledAgain(known.first, call, True, part))

    def _ended(self, look: int, seconds: float) -> None:
        """The step is over, and what it was given with it."""
        self.projected = {}
        self.current = None

    def _is_as_written(self, module: Any) -> bool:
        """Whether torch's own code projects, with weights that nothing makes anew for each call."""
        made_anew = module._forward_pre_hooks or "parametrizations" in module._modules
        return type(module).forward is self.attention.forward and not made_anew

    def _is_plain(self, tensor: Any) -> bool:
        if type(tensor) not in self.plain or tensor.is_nested or tensor.is_inference():
            return False
        return tensor.dim() in (2, 3) and tensor.numel() > 0 and not is_wrapped(self.torch, tensor)


def _part(module: Any, query: Any, key: Any, value: Any) -> float:
    """Of the multiply-adds of one call, those that project keys and values."""
    width = module.embed_dim
    asked, keys, values = (one.numel() // one.shape[-1] for one in (query, key, value))
    length = key.shape[1 if module.batch_first and key.dim() == 3 else 0]
    projected = (keys * module.kdim + values * module.vdim) * width
    rest = 2 * asked * width * (width + length)  # query and output; scores, and their sums of values
    return float(projected / (projected + rest))


@observer
def repeated_projections(watch: Watch) -> None:
    """See what attention is given, in sampled steps."""
    watch.on_sampled_steps(RepeatedProjections(watch))
