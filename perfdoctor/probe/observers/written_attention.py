"""Attention that is written out, and how much of it no fused kernel of the CPU could take over.

There, scaled_dot_product_attention computes as the script does, and saves nothing, where what is added to the
scores needs a gradient, as a learned bias does, or where weights are dropped. The graph of a loss tells both.
"""

from __future__ import annotations

from typing import Any, Dict, List, Mapping, Optional, Sequence

from ...wire.events.attention import WrittenAttentionEvent
from ..loss_graph import nodes_of, operation_of
from ..observer import Watch, observer
from ..recorder import Recorder
from ..steps.steps import StepTracker

LOOKS_MAX = 3
FURTHEST = 12  # nodes from a softmax to its products: scaling, masking, changes of shape
SOFTMAX, PRODUCT, ADDING_PRODUCT = "SoftmaxBackward0", "BmmBackward0", "BaddbmmBackward0"
SUMS = ("AddBackward0", "SubBackward0", ADDING_PRODUCT)
DROPPING = ("MulBackward0", "NativeDropoutBackward0")  # by a mask, or by anything else that is multiplied


class WrittenAttention:
    """Running totals of one process."""

    def __init__(self, steps: StepTracker) -> None:
        self.steps = steps
        self.looks = self.written = self.unfused = 0

    def sample(self, recorder: Recorder, loss: Any) -> None:
        """Before a backward: look through the graph of its loss."""
        if self.looks >= LOOKS_MAX or type(loss) is not self.steps.torch.Tensor:
            return
        if loss.grad_fn is None or not loss.is_cpu:
            return
        self.looks += 1
        found = attentions(nodes_of(loss.grad_fn) or ())
        self.written += len(found)
        self.unfused += sum(found)
        if self.written:
            event = WrittenAttentionEvent(written=self.written, unfused=self.unfused)
            self.steps.session.write(event)


@observer
def written_attention(watch: Watch) -> None:
    """Look through the graphs of the first few losses."""
    watch.before_some_backwards("written attention", WrittenAttention(watch.steps).sample)


def attentions(nodes: Sequence[Any]) -> List[bool]:
    """For each softmax between two batched products, whether no fused kernel would give its gradients."""
    softmaxes = [node for node in nodes if operation_of(node) == SOFTMAX]
    if not softmaxes:
        return []
    users: Dict[Any, List[Any]] = {}
    for node in nodes:
        for parent, _ in node.next_functions:
            users.setdefault(parent, []).append(node)
    both = ((_adds(node), _drops(node, users)) for node in softmaxes)
    return [adds or drops for adds, drops in both if adds is not None and drops is not None]


def _adds(softmax: Any) -> Optional[bool]:
    """Whether what is added to the scores needs a gradient; None where they are no batched product."""
    waiting, is_product, adds = [softmax], False, False
    for _ in range(FURTHEST):
        if not waiting:
            break
        node = waiting.pop(0)
        inner = [parent for parent, _ in node.next_functions if parent is not None]
        if operation_of(node) in SUMS:
            first, _ = node.next_functions[0]
            adds |= first is not None if operation_of(node) == ADDING_PRODUCT else len(inner) > 1
        if operation_of(node) in (PRODUCT, ADDING_PRODUCT):
            is_product = True
        else:
            waiting += inner
    return adds if is_product else None


def _drops(softmax: Any, users: Mapping[Any, Sequence[Any]]) -> Optional[bool]:
    """Whether weights are dropped before they meet the values; None where they go elsewhere."""
    node, drops = softmax, False
    for _ in range(FURTHEST):
        over = users.get(node, ())
        if len(over) != 1:
            return None
        node = over[0]
        if operation_of(node) == PRODUCT:
            return drops
        drops |= operation_of(node) in DROPPING
    return None
