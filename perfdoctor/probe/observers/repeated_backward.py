"""Backwards of one step that pass through the same graph, one loss after another.

A few pairs of backwards in a row are compared by the nodes of their graphs. A pair counts if both belong to
one step, and what the first one added to parameters is still there before the second.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any, List, Optional, Set, Tuple

from ...wire.events.training import RepeatedBackwardEvent
from .. import patch
from ..loss_graph import nodes_of, variable_of
from ..observer import Watch, observer
from ..recorder import Recorder
from ..user_frames import user_line

if TYPE_CHECKING:
    from ..steps.steps import StepTracker

SAMPLED = (8, 16, 32)  # backwards that begin a comparison
TRIES = 3  # backwards in a row: the first of them may be the last one of its step
LEAVES_MAX = 100  # parameters that are asked for their gradients

# Nothing of a graph is kept alive: that would take memory, and who looks for steps asks what still exists.
Leaves = List[Tuple[Any, int]]  # weak references to parameters, with their versions
Graph = Tuple[Set[int], Leaves]  # the numbers of its inner nodes, and some of its parameters


class PairOfBackwards:
    """A look at backwards until two of them in a row are of one step."""

    def __init__(self, steps: StepTracker) -> None:
        self.steps = steps
        self.left = TRIES
        self.last: Optional[Graph] = None
        self.before_backward = patch.guarded("repeated_backward", self._before_backward)

    def _before_backward(self, loss: Any) -> None:
        """Compare the graph with the one before, if both are of the same step."""
        recorder = self.steps.session.recorder
        last, self.last = self.last, self._graph(loss)
        self.left -= 1
        same_step = last is not None and recorder is not None and recorder.backwards > 0
        if same_step and last is not None and self.last is not None and _added_up(last[1]):
            nodes = self.last[0]
            self.steps.session.write(
                RepeatedBackwardEvent(nodes=len(nodes), shared=len(nodes & last[0]), at=user_line())
            )
        if same_step or not self.left or self.last is None:
            self.last = None
            self.steps.schedule.looks.remove(self)

    def after_backward(self) -> None:
        """Nothing is left to do."""

    def _graph(self, loss: Any) -> Optional[Graph]:
        """None where there is no saying."""
        if type(loss) is not self.steps.torch.Tensor or loss.grad_fn is None:
            return None
        order = nodes_of(loss.grad_fn)
        if order is None or not hasattr(loss.grad_fn, "_sequence_nr"):
            return None
        leaves = [node.variable for node in order if variable_of(node) is not None]
        inner = {node._sequence_nr() for node in order if variable_of(node) is None}
        return inner, [(weakref.ref(leaf), leaf._version) for leaf in leaves[:LEAVES_MAX]]


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


def _added_up(leaves: Leaves) -> bool:
    """Whether no parameter changed since, and none lost its gradient: each loss then only adds to it."""
    there = [(reference(), version) for reference, version in leaves]
    return all(
        leaf is not None and leaf._version == version and leaf.grad is not None for leaf, version in there
    )


@observer
def repeated_backward(watch: Watch) -> None:
    """Compare the graphs of backwards in a row, a few times."""
    watch.before_some_backwards("repeated_backward", RepeatedBackward(watch.steps).sample)
