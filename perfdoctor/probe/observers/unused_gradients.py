"""Gradients that nobody uses: parameters that backward reaches and no optimizer has.

The graph of a loss is walked before four of the early backwards; a parameter counts once nothing has
changed it from one of them to the next.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any, Dict, List, Tuple

from ...wire.events.training import UnusedGradientsEvent
from ..loss_graph import needless, nodes_of, parents_of
from ..observer import Watch, observer
from ..recorder import Recorder

if TYPE_CHECKING:
    from ..steps.steps import StepTracker

SAMPLED = (4, 8, 16, 32)  # backwards: by the last, every optimizer is there, the rarest of a GAN included


class UnusedGradients:
    """The sampled graphs of one process. `optimizers` is iterated anew at each."""

    def __init__(self, steps: StepTracker, optimizers: Any) -> None:
        self.steps = steps
        self.optimizers = optimizers
        self.due: List[int] = list(SAMPLED)
        self.versions: Dict[int, Tuple[Any, int]] = {}  # of suspects in the last graph, by identity

    def sample(self, recorder: Recorder, loss: Any) -> None:
        """Walk the graph of a loss, if it is time."""
        if not self.due or self.steps.schedule.backwards < self.due[0]:
            return
        self.due.pop(0)
        nn, tensor = self.steps.torch.nn, self.steps.torch.Tensor
        if type(loss) is not tensor or loss.grad_fn is None or not len(self.optimizers):
            return
        trained = [p for one in self.optimizers for group in one.param_groups for p in group["params"]]
        order = nodes_of(loss.grad_fn)
        if order is None or any(type(p) not in (nn.Parameter, tensor) for p in trained):
            return  # sharded parameters: those in the graph are others than the optimizer has
        known = {id(p) for p in trained}
        leaves = {index: node.variable for index, node in enumerate(order) if hasattr(node, "variable")}
        suspects = {
            index: leaf
            for index, leaf in leaves.items()
            if type(leaf) is nn.Parameter and id(leaf) not in known
        }
        still = {index for index, leaf in suspects.items() if self._unchanged(leaf)}
        self.versions = {id(leaf): (weakref.ref(leaf), leaf._version) for leaf in suspects.values()}
        self.steps.session.write(
            UnusedGradientsEvent(
                tensors=len(still),
                elements=sum(suspects[index].numel() for index in still),
                of_elements=sum(leaf.numel() for leaf in leaves.values()),
                nodes=len(order) - len(leaves),
                needless=len(needless(parents_of(order), set(leaves), set(leaves) - still)),
            )
        )

    def _unchanged(self, leaf: Any) -> bool:
        reference, version = self.versions.get(id(leaf), (None, -1))
        return reference is not None and reference() is leaf and leaf._version == version


@observer
def unused_gradients(watch: Watch) -> None:
    """Walk the graph of a loss before four of the early backwards."""
    watch.before_some_backwards("orphans", UnusedGradients(watch.steps, watch.lines.optimizers).sample)
