"""Parts of the model that backward goes through with nothing but zeros: their loss has a weight of zero.

In sampled steps hooks on the nodes of the results of modules see which gradients arrive there. They refer to
nothing of the script's, and have no effect on gradients.
"""

from __future__ import annotations

from typing import Any, Dict, Iterable, Iterator, List, Set, Tuple

from ...wire.events.zero_weight_losses import ZeroWeightLossEvent
from ..containers import tensors_in
from ..looks.op_recording import recording_question, unseen
from ..loss_graph import compiles_backward
from ..observer import Watch, observer
from ..patch import guarded
from ..user_frames import user_lines
from ..wrapping import Args, Kwargs

NAME = "zero_weight_losses"
SHORT_NS = 50_000  # calls below it are not asked: to look at their gradients may cost as much
TENSORS_MAX = 8  # in the result of one call
ELEMENTS_MAX = 1 << 24  # of gradients in one step that are looked at as a whole: those of zeros are
TOLD_MAX = 5  # lines


class GivenGradients:
    """The gradients that arrive at what one call returned, with those of the calls inside it."""

    __slots__ = ("arrived", "call", "inside", "lines", "zeros")

    def __init__(self, call: Any) -> None:
        self.call = call
        self.inside: List[GivenGradients] = []
        self.arrived = self.zeros = 0
        self.lines: List[Dict[str, Any]] = []

    @property
    def are_zeros(self) -> bool:
        """Whether there were some, and all of them nothing but zeros."""
        return 0 < self.arrived == self.zeros


class ZeroWeightLosses:
    """The calls of one sampled step."""

    def __init__(self, watch: Watch) -> None:
        self.watch = watch
        self.plain = watch.torch.Tensor
        self.strided = watch.torch.strided
        self.is_recording = recording_question()
        self.stack: List[GivenGradients] = []
        self.outermost: List[GivenGradients] = []
        self.left = ELEMENTS_MAX
        self.suspects: Set[int] = set()  # identities of modules with zeros in an earlier step
        self.called = guarded(NAME, self._called)
        self.returned = guarded(NAME, self._returned)
        self.ended = guarded(NAME, self._ended)

    def _called(self, call: Any, args: Args, kwargs: Kwargs) -> None:
        """A call begins."""
        self.stack.append(GivenGradients(call))

    def _returned(self, call: Any, result: Any) -> None:
        """A call has ended; one that failed is still on the stack."""
        while self.stack and self.stack[-1].call is not call:
            self.stack.pop()
        if not self.stack:
            return
        given = self.stack.pop()
        if not call.recording or call.ns < SHORT_NS:
            return
        (self.stack[-1].inside if self.stack else self.outermost).append(given)
        if compiles_backward():
            return
        for tensor in tensors_in(self.plain, result, TENSORS_MAX):
            if tensor.grad_fn is not None and tensor.is_cpu:
                tensor.grad_fn.register_prehook(self._hook(given, tensor.output_nr))
        if id(call.module) in self.suspects:
            given.lines = user_lines()

    def _hook(self, given: GivenGradients, place: int) -> Any:
        """Notes the gradient that goes into this place of a node."""

        def arrives(gradients: Tuple[Any, ...]) -> None:
            gradient = gradients[place]
            if gradient is None or self.is_recording():
                return
            given.arrived += 1
            given.zeros += self._is_zero(gradient)

        return guarded(NAME, unseen(arrives))

    def _is_zero(self, gradient: Any) -> bool:
        """Whether it is nothing but zeros; the first row tells of nearly all that are not."""
        if type(gradient) is not self.plain or gradient.layout != self.strided or not gradient.numel():
            return False
        row = gradient
        while row.dim() > 1:
            row = row[0]
        try:
            if bool(row.any()):
                return False
            self.left -= gradient.numel()
            return self.left >= 0 and not bool(gradient.any())
        except RuntimeError:
            return False  # a tensor of a transform, for one, tells no values

    def _ended(self, look: int, seconds: float) -> None:
        """Write down which calls got zeros, the costliest lines first."""
        outermost, self.outermost = self.outermost, []
        self.stack, self.left = [], ELEMENTS_MAX
        found: Dict[str, List[GivenGradients]] = {}
        for given in _zeros(outermost):
            self.suspects.add(id(given.call.module))
            given.lines = given.lines or given.call.lines
            found.setdefault(str(given.lines[:1]), []).append(given)
        called_s = _called_ns(outermost) / 1e9
        for same in sorted(found.values(), key=_ns, reverse=True)[:TOLD_MAX]:
            longest = max(same, key=lambda given: int(given.call.ns))
            self.watch.write(
                ZeroWeightLossEvent(
                    look=look,
                    module=longest.call.module_type,
                    calls=len(same),
                    seconds=_ns(same) / 1e9,
                    called_s=called_s,
                    at=longest.lines[0] if longest.lines else None,
                )
            )


def _zeros(calls: Iterable[GivenGradients]) -> Iterator[GivenGradients]:
    """Those with gradients of zeros; what is inside one is part of it."""
    for given in calls:
        if given.are_zeros:
            yield given
        else:
            yield from _zeros(given.inside)


def _called_ns(calls: Iterable[GivenGradients]) -> int:
    """What these took; of a call around some with gradients of zeros, what is inside it.

    A model that returns its loss gets a gradient of one, be that loss zero in all its parts.
    """
    return sum(
        _called_ns(given.inside) if not given.are_zeros and any(_zeros(given.inside)) else given.call.ns
        for given in calls
    )


def _ns(calls: Iterable[GivenGradients]) -> int:
    return sum(given.call.ns for given in calls)


@observer
def zero_weight_losses(watch: Watch) -> None:
    """See which gradients arrive at the results of modules, in sampled steps."""
    watch.on_sampled_steps(ZeroWeightLosses(watch))
