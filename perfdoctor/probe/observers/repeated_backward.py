"""Backwards of one step that pass through the same graph, one loss after another, or one loss twice.

A few backwards in a row are compared with the one before, if both belong to one step and no parameter changed
between. Those of one loss that are asked for the same gradients, or for some of them, compute these twice.
Others are compared by the nodes of their graphs, where what the first one added to parameters is still there
before the second.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any, Collection, List, Optional, Set, Tuple

from ...wire.events import Event
from ...wire.events.training import RepeatedBackwardEvent, RepeatedPassEvent
from .. import patch
from ..containers import is_a
from ..loss_graph import nodes_of, variable_of
from ..module_parts import is_zero
from ..observer import Watch, observer
from ..recorder import Recorder, clock
from ..steps.backward_call import BackwardCall
from ..user_frames import user_line

if TYPE_CHECKING:
    from ..steps.steps import StepTracker

NAME = "repeated_backward"
SAMPLED = (8, 16, 32)  # backwards that begin a comparison
TRIES = 4  # backwards in a row: the first of them may be the last one of its step
AFTER_IT = 2  # more of them show whether gradients accumulate: then what they hold is a sum
LEAVES_MAX = 100  # parameters that are asked for their gradients
TOLD_BY = 4  # of them, whether gradients are clear

# Nothing of a graph is kept alive: that would take memory, and who looks for steps asks what still exists.
Known = List[Tuple[Any, int]]  # weak references to tensors, with their versions


class BackwardPass:
    """One backward: its graph, what it is asked for, and how long it took."""

    def __init__(self, call: BackwardCall, loss: Any, order: Collection[Any], torch: Any) -> None:
        leaves = {id(node.variable): node.variable for node in order if variable_of(node) is not None}
        tensor = torch.Tensor
        self.root = loss.grad_fn._sequence_nr(), loss.output_nr
        self.inner = {node._sequence_nr() for node in order if variable_of(node) is None}
        self.leaves = _known(list(leaves.values())[:LEAVES_MAX])
        self.parameters = {
            name: leaf.shape for name, leaf in leaves.items() if is_a(leaf, torch.nn.Parameter)
        }
        self.targets = _targets(call, set(leaves), tensor)  # by identity; None: not known
        seeds = _listed(call.seeds, tensor)
        self.seeds = None if seeds is None else _known([seed for seed in seeds if seed is not None])
        self.adds = call.adds
        self.is_plain = not (call.makes_graph or call.is_batched)
        self.is_fresh = all(
            leaf.grad is None or is_zero(leaf.grad) for leaf in list(leaves.values())[:TOLD_BY]
        )
        self.at = user_line()
        self.began_ns = clock()
        self.elapsed_ns = 0

    def ended(self, result: Any, tensor: type) -> None:
        """Note how long it took, and what it was asked for where an iterator did that: all, or not known."""
        self.elapsed_ns = clock() - self.began_ns
        if self.targets is None and is_a(result, tuple) and all(is_a(one, tensor) for one in result):
            is_by_all = sorted(one.shape for one in result) == sorted(self.parameters.values())
            self.targets = set(self.parameters) if is_by_all else None

    def computes_all_of(self, other: BackwardPass) -> bool:
        """Whether all that the other one is asked for is asked of this as well."""
        return bool(other.targets) and (other.targets or set()) <= (self.targets or set())


class PairOfBackwards:
    """A look at backwards until two of them in a row are of one step."""

    def __init__(self, steps: StepTracker) -> None:
        self.steps = steps
        self.tensor: type = steps.torch.Tensor
        self.left = TRIES
        self.found: Optional[RepeatedPassEvent] = None  # written unless gradients turn out to accumulate
        self.last: Optional[BackwardPass] = None  # that has ended
        self.now: Optional[BackwardPass] = None
        self.before_backward = patch.guarded(NAME, self._before_backward)
        self.after_backward = patch.guarded(NAME, self._after_backward)

    def _before_backward(self, loss: Any) -> None:
        """Take up the graph, and compare it with the one before, if both are of the same step."""
        recorder = self.steps.session.recorder
        is_same_step = recorder is not None and recorder.backwards > 0
        self.left -= 1
        self.now, last = self._pass(), self.last if is_same_step else None
        self.last = last if last is not None and _unchanged(last.leaves) else None
        now, last = self.now, self.last
        if self.found is not None:
            if not is_same_step:
                self._end(self.found)
            elif now is not None and now.adds and not now.is_fresh:
                self._end()
        elif now is not None and last is not None and last.adds and now.adds and _have_gradients(last.leaves):
            shared = len(now.inner & last.inner)
            self._end(RepeatedBackwardEvent(nodes=len(now.inner), shared=shared, at=now.at))

    def _after_backward(self) -> None:
        """Compare what the two were asked for."""
        call, now, last = self.steps.schedule.call, self.now, self.last
        if now is not None and call is not None:
            now.ended(call.result, self.tensor)
        if last is not None and now is not None and self.found is None:
            superfluous = _superfluous(last, now)
            # Of each rank's gradients only `autograd.grad` tells: those that are added are the mean of all.
            if superfluous is not None and (superfluous.adds or self.steps.backwards.gradient_sync is None):
                self.found = _told(superfluous, last if superfluous is now else now)
                self.left = AFTER_IT
        self.last, self.now = now, None
        if not self.left:
            self._end(self.found)

    def _end(self, event: Optional[Event] = None) -> None:
        if event is not None:
            self.steps.session.write(event)
        if self in self.steps.schedule.looks:
            self.steps.schedule.looks.remove(self)

    def _pass(self) -> Optional[BackwardPass]:
        """None where there is no saying."""
        call = self.steps.schedule.call
        losses = _listed(call.loss, self.tensor) if call is not None else None
        if call is None or losses is None or len(losses) != 1:
            return None
        loss: Any = losses[0]
        node = loss.grad_fn if type(loss) is self.steps.torch.Tensor else None
        order = nodes_of(node) if hasattr(node, "_sequence_nr") else None
        return None if order is None else BackwardPass(call, loss, order, self.steps.torch)


def _told(superfluous: BackwardPass, other: BackwardPass) -> RepeatedPassEvent:
    return RepeatedPassEvent(
        seconds=superfluous.elapsed_ns / 1e9,
        other_s=other.elapsed_ns / 1e9,
        adds=superfluous.adds,
        other_adds=other.adds,
        at=superfluous.at,
        other_at=other.at,
    )


class RepeatedBackward:
    """The looks of one process."""

    def __init__(self, steps: StepTracker) -> None:
        self.steps = steps
        self.due: List[int] = list(SAMPLED)

    def sample(self, recorder: Recorder, loss: Any) -> None:
        """Open a look that begins with this backward, if it is time."""
        if self.due and self.steps.schedule.backwards >= self.due[0]:
            self.due.pop(0)
            self.steps.schedule.looks.append(PairOfBackwards(self.steps))


def _superfluous(first: BackwardPass, second: BackwardPass) -> Optional[BackwardPass]:
    """The one of two that computes nothing that the other does not.

    It is one that hands gradients out, if there is one: the other's are what an update needs. What adds to
    gradients that are there gives a sum, not what was asked for.
    """
    if first.root != second.root or not (first.is_plain and second.is_plain and _same(first, second)):
        return None
    if any(one.adds and not one.is_fresh for one in (first, second)):
        return None
    if first.adds and not second.adds:
        return second if first.computes_all_of(second) else None
    if second.computes_all_of(first) and (second.adds or first.targets != second.targets):
        return first
    return second if not second.adds and first.computes_all_of(second) else None


def _same(first: BackwardPass, second: BackwardPass) -> bool:
    """Whether both began with the same gradients."""
    if first.seeds is None or second.seeds is None or len(first.seeds) != len(second.seeds):
        return False
    pairs = [(one(), version, other()) for (one, version), (other, _) in zip(first.seeds, second.seeds)]
    return all(one is not None and one is other and one._version == version for one, version, other in pairs)


def _targets(call: BackwardCall, leaves: Set[int], tensor: type) -> Optional[Set[int]]:
    """Which of the leaves a call is asked for, by identity; None: an iterator tells, which is not ours."""
    if call.inputs is None:
        return leaves
    given = _listed(call.inputs, tensor)
    if call.adds and not given:
        return leaves
    return None if given is None else {id(one) for one in given} & leaves


def _listed(given: Any, tensor: type) -> Optional[Tuple[Any, ...]]:
    """What is given alone, or in a list or tuple; None of anything else."""
    if is_a(given, (list, tuple)):
        return tuple(given)
    return (given,) if given is None or is_a(given, tensor) else None


def _known(tensors: Collection[Any]) -> Known:
    return [(weakref.ref(tensor), tensor._version) for tensor in tensors]


def _unchanged(leaves: Known) -> bool:
    there = [(reference(), version) for reference, version in leaves]
    return all(leaf is not None and leaf._version == version for leaf, version in there)


def _have_gradients(leaves: Known) -> bool:
    """Whether none lost its gradient: each loss then only adds to it."""
    there = [reference() for reference, _ in leaves]
    return all(leaf is not None and leaf.grad is not None for leaf in there)


@observer
def repeated_backward(watch: Watch) -> None:
    """Compare the graphs of backwards in a row, a few times."""
    watch.before_some_backwards(NAME, RepeatedBackward(watch.steps).sample)
