"""Gradients that nobody uses: parameters that backward reaches and no optimizer has, or none that moves them.

The graph of a loss is walked before a few backwards, early ones and a later one; a parameter counts once
nothing has changed it from one of them to the next. A learning rate of zero writes a parameter as it was.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING, Any, Dict, List, Tuple

from ...wire.events.training import UnusedGradientsEvent, UnusedModuleEvent
from ..containers import is_a
from ..loss_graph import LOOKUPS, needless, nodes_of, operation_of, parents_of, users_of, variable_of
from ..module_parts import parameters_of
from ..observer import Watch, observer
from ..recorder import Recorder
from ..user_frames import user_line

if TYPE_CHECKING:
    from ..constructor_lines import ConstructorLines
    from ..steps.steps import StepTracker

# Backwards: by the fourth of them, every optimizer is there, the rarest of a GAN included; by the last, what
# is thawed layer by layer.
SAMPLED = (4, 8, 16, 32, 256)
# After one that is the first to meet parameters which no optimizer has, as where a script trains its model
# only after another one: the next is due so many backwards later.
SECOND_LOOK = 8
PIECE = 64  # elements of a parameter that tell whether it moves
ALIKE = 0.02  # a part of a model need not be reached by backward


class UnusedGradients:
    """The sampled graphs of one process. The optimizers of `lines` are iterated anew at each."""

    def __init__(self, steps: StepTracker, lines: ConstructorLines) -> None:
        self.steps = steps
        self.lines = lines
        self.due: List[int] = list(SAMPLED)
        self.is_second = False  # the sample that is due next was asked for by the last one
        self.before: Dict[int, Tuple[Any, int, Any]] = {}  # suspects of the last graph, by identity
        # Elements of those that count, by identity, until a module of just them is called.
        self.unused: Dict[int, int] = {}

    def sample(self, recorder: Recorder, loss: Any) -> None:
        """Walk the graph of a loss, if it is time."""
        backwards = self.steps.schedule.backwards
        if not self.due or backwards < self.due[0]:
            return
        self.due.pop(0)
        was_second, self.is_second = self.is_second, False
        nn, tensor = self.steps.torch.nn, self.steps.torch.Tensor
        if type(loss) is not tensor or loss.grad_fn is None or not len(self.lines.optimizers):
            return
        groups = [group for one in self.lines.optimizers for group in one.param_groups]
        trained = [p for group in groups for p in group["params"]]
        order = nodes_of(loss.grad_fn)
        if order is None or any(type(p) not in (nn.Parameter, tensor) for p in trained):
            return  # sharded parameters: those in the graph are others than the optimizer has
        known = {id(p) for group in groups if not _is_at_rest(group) for p in group["params"]}
        at_rest = {id(p) for p in trained} - known
        leaves = {index: node.variable for index, node in enumerate(order) if variable_of(node) is not None}
        suspects = {
            index: leaf
            for index, leaf in leaves.items()
            if type(leaf) is nn.Parameter and id(leaf) not in known
        }
        still = {index for index, leaf in suspects.items() if self._unchanged(leaf)}
        self.before = {id(leaf): _state(leaf, id(leaf) in at_rest) for leaf in suspects.values()}
        if suspects and not still and not was_second and self._next_in(backwards) > SECOND_LOOK:
            self.is_second = True
            self.due.insert(0, backwards + SECOND_LOOK)
        self.unused = {id(suspects[index]): suspects[index].numel() for index in still}
        parents = parents_of(order)
        gone = set(needless(parents, set(leaves), set(leaves) - still))
        users = users_of(parents, set(leaves))
        weights = {
            index: leaf.numel()
            for index, leaf in leaves.items()
            if not any(operation_of(order[user]) in LOOKUPS for user in users[index])
        }
        self.steps.session.write(
            UnusedGradientsEvent(
                tensors=len(still),
                elements=sum(suspects[index].numel() for index in still),
                of_elements=sum(leaf.numel() for leaf in leaves.values()),
                nodes=len(order) - len(leaves),
                needless=len(gone),
                weights=sum(weights.values()),
                apart=sum(size for index, size in weights.items() if index in still and users[index] <= gone),
                at_rest=sum(suspects[index].numel() for index in still if id(suspects[index]) in at_rest),
            )
        )

    def _next_in(self, backwards: int) -> float:
        """Backwards until the next sample is due."""
        return self.due[0] - backwards if self.due else float("inf")

    def called(self, module: Any) -> None:
        """Note where a model is called, or a part of one, whose parameters are those that count."""
        if not self.unused or id(next(parameters_of(module), None)) not in self.unused:
            return
        elements = sum(self.unused.values())
        own = [(id(parameter), parameter.numel()) for parameter in parameters_of(module)]
        others = sum(size for identity, size in own if identity not in self.unused)
        missing = elements - sum(size for identity, size in own if identity in self.unused)
        if max(others, missing) <= ALIKE * elements:
            self.unused = {}
            built = self.lines.line_of(module, "")
            self.steps.session.write(UnusedModuleEvent(elements=elements, at=user_line(), built=built))

    def _unchanged(self, leaf: Any) -> bool:
        reference, version, piece = self.before.get(id(leaf), (None, -1, None))
        if reference is None or reference() is not leaf:
            return False
        return leaf._version == version or (piece is not None and piece == _piece(leaf))


def _is_at_rest(group: Dict[str, Any]) -> bool:
    """Whether an optimizer leaves these parameters as they are; a rate in a tensor is not read."""
    rate = group.get("lr")
    return is_a(rate, (int, float)) and rate == 0


def _state(leaf: Any, is_at_rest: bool) -> Tuple[Any, int, Any]:
    """The parameter, how often it was written, and some of it where it is written all the time."""
    return weakref.ref(leaf), leaf._version, _piece(leaf) if is_at_rest else None


def _piece(leaf: Any) -> List[float]:
    """Nothing of what is on a device: to read it would wait for all its work."""
    found: List[float] = leaf.detach().reshape(-1)[:PIECE].tolist() if leaf.is_cpu else []
    return found


@observer
def unused_gradients(watch: Watch) -> None:
    """Walk the graph of a loss before a few of the backwards."""
    unused = UnusedGradients(watch.steps, watch.lines)
    watch.before_some_backwards("orphans", unused.sample)
    watch.on_sampled_module("orphans", unused.called)
