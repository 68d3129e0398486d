"""Targets that a loss ignores, and how long backward takes for the scores that were computed for them.

In a few backwards the graph of the loss is followed from `nll_loss`, which `cross_entropy` ends in, to the
product that gave its scores. Targets are read as Python numbers, on the CPU only: operations of torch's would
be seen by the script's own profilers and modes, and a device would be waited for.
"""

from __future__ import annotations

from typing import Any, List, Optional

from ...wire.events.training import IgnoredTargetsEvent
from ..loss_graph import compiles_backward, nodes_of
from ..observer import Watch, observer
from ..recorder import Recorder, clock
from ..steps.steps import StepTracker

LOOKS_MAX = 16
TARGETS_MAX = 4_096  # of one loss that are read
FURTHEST = 12  # nodes between the loss and the product
PRODUCTS = {"AddmmBackward0": 1, "MmBackward0": 0}  # by name: which of its inputs the scores are made from
WRAPPED = 1 << 64  # torch shows a negative number as an unsigned one


class HeadLook:
    """One backward: when it reached the loss, and when the scores were done with."""

    def __init__(self, steps: StepTracker, owner: IgnoredTargets, loss: Any, beyond: Any) -> None:
        self.steps = steps
        self.owner = owner
        self.begin_ns = self.end_ns = 0
        self.handles = [loss.register_prehook(self._begin), beyond.register_prehook(self._end)]

    def _begin(self, gradients: Any) -> None:
        self.begin_ns = clock()

    def _end(self, gradients: Any) -> None:
        self.end_ns = clock()

    def before_backward(self, loss: Any) -> None:
        """The backward that is looked at begins."""

    def after_backward(self) -> None:
        """It has ended: tell how long the scores took in it."""
        for handle in self.handles:
            handle.remove()
        self.steps.schedule.looks.remove(self)
        if 0 < self.begin_ns < self.end_ns:
            self.owner.tell((self.end_ns - self.begin_ns) / 1e9)


class IgnoredTargets:
    """Running totals of one process."""

    def __init__(self, steps: StepTracker) -> None:
        self.steps = steps
        self.looks = self.targets = self.ignored = self.classes = 0
        self.seconds = 0.0

    def sample(self, recorder: Recorder, loss: Any) -> None:
        """Before a backward: look at its loss, if it ignores any targets."""
        torch = self.steps.torch
        root = loss.grad_fn if type(loss) is torch.Tensor else None
        if root is None or self.looks >= LOOKS_MAX or compiles_backward():
            return
        found = [node for node in nodes_of(root) or () if node.name().startswith("NllLoss")]
        beyond = _beyond(found[0]) if len(found) == 1 else None
        if beyond is None:
            return
        target, ignored = found[0]._saved_target, found[0]._saved_ignore_index
        if type(target) is not torch.Tensor or not target.is_cpu:
            return
        read = _read(target)
        self.targets += len(read)
        self.ignored += read.count(ignored - WRAPPED if ignored >= WRAPPED // 2 else ignored)
        self.classes = found[0]._saved_self.shape[1]
        self.steps.schedule.looks.append(HeadLook(self.steps, self, found[0], beyond))

    def tell(self, seconds: float) -> None:
        """A look is over."""
        self.looks += 1
        self.seconds += seconds
        self.steps.session.write(
            IgnoredTargetsEvent(
                looks=self.looks,
                targets=self.targets,
                ignored=self.ignored,
                classes=self.classes,
                seconds=self.seconds,
            )
        )


@observer
def ignored_targets(watch: Watch) -> None:
    """Look at the targets of a few backwards."""
    watch.before_some_backwards("ignored targets", IgnoredTargets(watch.steps).sample)


def _beyond(node: Any) -> Optional[Any]:
    """The node behind the product that the scores came from; None where a loss is given other scores."""
    for _ in range(FURTHEST):
        if node.name() in PRODUCTS:
            return node.next_functions[PRODUCTS[node.name()]][0]
        before = [one for one, _ in node.next_functions if one is not None and not hasattr(one, "variable")]
        if len(before) != 1:  # a bias is a leaf
            return None
        node = before[0]
    return None


def _read(target: Any) -> List[int]:
    values: List[int] = target.reshape(-1)[:: -(-target.numel() // TARGETS_MAX) or 1].tolist()
    return values
