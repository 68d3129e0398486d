"""Backwards of one step that pass through the same graph, one loss after another.

A few pairs of backwards in a row are compared by the nodes of their graphs. A pair counts if both belong to
one step, and what the first one added to parameters is still there before the second.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, List, Optional, Set, Tuple

from ...wire.events.training import RepeatedBackwardEvent
from .. import patch
from ..loss_graph import nodes_of
from ..observer import Watch, observer
from ..recorder import Recorder
from ..user_frames import user_line

if TYPE_CHECKING:
    from ..steps.steps import StepTracker

SAMPLED = (8, 16, 32)  # backwards that begin a comparison
TRIES = 3  # backwards in a row: the first of them may be the last one of its step
LEAVES_MAX = 100  # parameters that are asked for their gradients

Leaves = List[Tuple[Any, int]]  # parameters with their versions


class RepeatedBackward:
    """The compared backwards of one process."""

    def __init__(self, steps: StepTracker) -> None:
        self.steps = steps
        self.due: List[int] = list(SAMPLED)
        self.tries = 0
        self.before: Optional[Tuple[Set[Any], Leaves]] = None  # kept until the next backward
        self.second = patch.guarded("repeated_backward", self._second)

    def sample(self, recorder: Recorder, loss: Any) -> None:
        """Take this backward for the first of two, if it is time."""
        if self.due and self.steps.schedule.backwards >= self.due[0]:
            self.due.pop(0)
            self.tries = TRIES
            self._first(loss)

    def _first(self, loss: Any) -> None:
        self.tries -= 1
        self.before = self._graph(loss)
        if self.before is not None:
            self.steps.schedule.soon.append(self.second)

    def _second(self, recorder: Recorder, loss: Any) -> None:
        before, self.before = self.before, None
        if before is None:
            return
        if not recorder.backwards:  # of the next step
            if self.tries:
                self._first(loss)
            return
        now = self._graph(loss)
        if now is not None and _added_up(before[1]):
            shared = len(before[0] & now[0])
            self.steps.session.write(RepeatedBackwardEvent(nodes=len(now[0]), shared=shared, at=user_line()))

    def _graph(self, loss: Any) -> Optional[Tuple[Set[Any], Leaves]]:
        """The inner nodes of a loss's graph, and some of its parameters; None where there is no saying."""
        if type(loss) is not self.steps.torch.Tensor or loss.grad_fn is None:
            return None
        order = nodes_of(loss.grad_fn)
        if order is None:
            return None
        leaves = [node.variable for node in order if hasattr(node, "variable")]
        inner = {node for node in order if not hasattr(node, "variable")}
        return inner, [(leaf, leaf._version) for leaf in leaves[:LEAVES_MAX]]


def _added_up(leaves: Leaves) -> bool:
    """Whether no parameter changed since, and none lost its gradient: each loss then only adds to it."""
    return all(leaf._version == version and leaf.grad is not None for leaf, version in leaves)


@observer
def repeated_backward(watch: Watch) -> None:
    """Compare the graphs of backwards in a row, a few times."""
    watch.before_some_backwards("repeated_backward", RepeatedBackward(watch.steps).sample)
