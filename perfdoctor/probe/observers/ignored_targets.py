"""Targets that a loss ignores, and how long backward takes for the scores that were computed for them.

In a few backwards the graph of the loss is followed from `nll_loss`, which `cross_entropy` ends in, to the
product that gave its scores. On the CPU, targets are read at once, as Python numbers. Nothing waits for a
device: its targets are copied into pinned host memory behind the work that makes them, and its own events
time the backward. What the script saves in a way of its own, as checkpointing does, is left where it is:
asking for it would compute it again.

A step may have several backwards, of several losses. Totals are those of one head, which its weight tells,
and for some updates all backwards are counted, and those that come to each head.
"""

from __future__ import annotations

import re
from math import gcd
from typing import Any, Dict, List, Optional, Sequence, Tuple

from ...wire.events.training import IgnoredTargetsEvent
from .. import accelerators, patch
from ..looks.op_recording import recording_question
from ..loss_graph import compiles_backward, nodes_of, operation_of, variable_of
from ..observer import Watch, observer
from ..recorder import Recorder, clock
from ..saved_tensors import is_saved_plainly, watch_hooks
from ..steps.steps import StepTracker

NAME = "ignored targets"
LOOKS_MAX = 16
IN_VAIN_MAX = 64  # graphs in a row without a loss like that: there will be none
TARGETS_MAX = 4_096  # of one loss that are read
FURTHEST = 12  # nodes between the loss and the product
COUNTS = 3  # times that backwards are counted
ROWS = 12  # updates each time: a step may have 2, 3, 4 or 6
COUNTED_MAX = 100  # backwards each time
LOSSES = frozenset(("NllLossBackward0", "NllLoss2DBackward0"))
PRODUCTS = frozenset(("AddmmBackward0", "MmBackward0"))
# What may lie between keeps a score one of its position. Layers that compute are no part of a head.
PASSED = re.compile(
    r"LogSoftmax|(Unsafe|Unsqueeze|Squeeze)?View|ReshapeAlias|Transpose|Permute|Squeeze|Unsqueeze|Slice|Select|T|"
    r"Index|Alias|Clone|Expand|AsStrided|ToCopy|Mul|Div|Add|Sub|Tanh|_DDPSink"
)
WRAPPED = 1 << 64  # torch shows a negative number as an unsigned one

Head = Tuple[Optional[int], Optional[int]]  # the scores of a position, and which weight gives them


class HeadLook:
    """One backward: the targets of its loss, when it reached the loss, and when the scores were done with."""

    def __init__(self, owner: IgnoredTargets, loss: Any, product: Any, target: Any, classes: int) -> None:
        self.owner = owner
        self.head = _head(loss, product)
        ignored = loss._saved_ignore_index
        self.ignored = ignored - WRAPPED if ignored >= WRAPPED // 2 else ignored
        self.classes = classes
        self.rows, self.width = _sizes(product)
        self.values = self.read(_some(target))
        self.begin: Any = None
        self.end: Any = None
        self.handles = [
            loss.register_prehook(patch.guarded(NAME, self._begin)),
            product.register_hook(patch.guarded(NAME, self._end)),
        ]
        self.after_backward = patch.guarded(NAME, self._after_backward)

    def read(self, target: Any) -> Any:
        """The values of targets."""
        return target.tolist()

    def moment(self) -> Any:
        """Now."""
        return clock()

    def is_known(self) -> bool:
        """Whether the values are there, and how long it took."""
        return True

    def numbers(self) -> List[int]:
        """The targets that were read."""
        values: List[int] = self.values
        return values

    def seconds(self) -> float:
        """From the loss to behind the product."""
        return float(self.end - self.begin) / 1e9

    def _begin(self, gradients: Any) -> None:
        self.begin = self.moment()

    def _end(self, gradients: Any, given: Any) -> None:
        self.end = self.moment()

    def before_backward(self, loss: Any) -> None:
        """The backward that is looked at begins."""

    def _after_backward(self) -> None:
        """It has ended: tell how long the scores took in it."""
        for handle in self.handles:
            handle.remove()
        self.owner.seen(self)


class DeviceHeadLook(HeadLook):
    """The same on a device, which is at it for some time after the host has launched it."""

    def __init__(
        self,
        owner: IgnoredTargets,
        loss: Any,
        product: Any,
        target: Any,
        classes: int,
        used: accelerators.Accelerator,
    ) -> None:
        self.used = used
        self.device = target.device
        super().__init__(owner, loss, product, target, classes)

    def read(self, target: Any) -> Any:
        """Send them on their way."""
        values = self.owner.pinned()[: target.numel()]
        values.copy_(target, non_blocking=True)
        self.copied = self.moment()
        return values

    def moment(self) -> Any:
        """An event behind all that is launched by now."""
        event = self.used.module.Event(enable_timing=True)
        event.record(self.used.module.current_stream(self.device))
        return event

    def is_known(self) -> bool:
        """Whether the device has come past all of it; it is not asked in a graph capture, which that ends."""
        return not self.used.is_capturing and all(
            event.query() for event in (self.copied, self.begin, self.end)
        )

    def numbers(self) -> List[int]:
        """The targets, which have arrived."""
        values: List[int] = self.values.tolist()
        return values

    def seconds(self) -> float:
        """Of the device's time."""
        return float(self.begin.elapsed_time(self.end)) / 1e3


class HeadCount:
    """The backwards of some updates one after the other: how many of them come to which head."""

    def __init__(self, owner: IgnoredTargets, recorder: Recorder) -> None:
        self.owner = owner
        self.recorder = recorder
        self.row = recorder.written  # of an update that had begun already
        self.rows = self.seen = self.whole = 0
        self.heads: List[Optional[Head]] = []
        self.before_backward = patch.guarded(NAME, self._before_backward)

    def _before_backward(self, loss: Any) -> None:
        """Count it, or tell of those before."""
        looks = self.owner.steps.schedule.looks
        looks.remove(self)  # first: whatever fails after it leaves none behind
        if self.recorder.written != self.row:
            self.row, self.whole = self.recorder.written, len(self.heads)
            self.rows += 1
        self.seen += 1
        if self.rows > ROWS or self.seen > COUNTED_MAX:
            self.owner.counted(self.heads[: self.whole] or self.heads)
            return
        if self.rows:
            found = self.owner.found(loss)
            self.heads.append(_head(*found) if found is not None else None)
        looks.append(self)

    def after_backward(self) -> None:
        """What counts was known before it."""


class HeadTotals:
    """Running totals of one head."""

    def __init__(self, number: int, look: HeadLook) -> None:
        self.number = number
        self.classes, self.width, self.ignore_index = look.classes, look.width, look.ignored
        self.looks = self.targets = self.ignored = self.rows = 0
        self.seconds = 0.0


class IgnoredTargets:
    """Running totals of one process."""

    def __init__(self, steps: StepTracker) -> None:
        self.steps = steps
        self.is_recording = recording_question()
        self.looks = 0
        self.in_vain = 0  # graphs that were followed since the last loss of this kind
        self.heads: Dict[Head, HeadTotals] = {}
        self.at: Dict[Optional[Head], int] = {}  # backwards that were counted
        self.counts = 0
        self.counting = False
        self.under_way: Optional[HeadLook] = None  # over for the host, perhaps not for the device
        self._pinned: Any = None

    def sample(self, recorder: Recorder, loss: Any) -> None:
        """Before a backward: look at its loss, if it ignores any targets."""
        if self.looks >= LOOKS_MAX or self.in_vain >= IN_VAIN_MAX or compiles_backward():
            return
        self.collect()
        found = self.found(loss)
        self.in_vain = self.in_vain + 1 if found is None else 0
        if found is None or self.under_way is not None or self.is_recording():
            return
        look = self._look(*found)
        if look is None:
            return
        self.steps.schedule.looks.append(look)
        ignores = any(head.ignored for head in self.heads.values())
        if ignores and self.counts < COUNTS and not self.counting:
            self.counting = True
            self.steps.schedule.looks.append(HeadCount(self, recorder))

    def found(self, loss: Any) -> Optional[Tuple[Any, Any]]:
        """The node of the loss and the product that gives its scores, if there is one of each."""
        root = loss.grad_fn if type(loss) is self.steps.torch.Tensor else None
        nodes = (
            [node for node in nodes_of(root) or () if operation_of(node) in LOSSES]
            if root is not None
            else []
        )
        product = _product(nodes[0]) if len(nodes) == 1 else None
        return (nodes[0], product) if product is not None else None

    def _look(self, loss: Any, product: Any) -> Optional[HeadLook]:
        """A look at this loss, if its targets can be read, and picking some would leave it as it is."""
        classes = _classes(loss)
        if classes is None or not loss._saved_reduction or not is_saved_plainly(loss._raw_saved_target):
            return None
        torch, target = self.steps.torch, loss._saved_target
        if type(target) is not torch.Tensor:
            return None
        used = accelerators.of_kind(torch, target.device.type)
        if used is None:
            return HeadLook(self, loss, product, target, classes) if target.is_cpu else None
        if used.kind == accelerators.MPS or not hasattr(used.module, "Event") or used.is_capturing:
            return None
        return DeviceHeadLook(self, loss, product, target, classes, used)

    def pinned(self) -> Any:
        """Where targets of a device arrive; those of one look at a time."""
        if self._pinned is None:
            torch = self.steps.torch
            self._pinned = torch.empty(TARGETS_MAX, dtype=torch.int64, device="cpu", pin_memory=True)
        return self._pinned

    def seen(self, look: HeadLook) -> None:
        """The backward of a look is over."""
        self.steps.schedule.looks.remove(look)  # first: whatever fails after it leaves none behind
        if look.begin is not None and look.end is not None:
            self.under_way = look
            self.collect()

    def collect(self) -> None:
        """Tell of the last look, if all of it is known."""
        look = self.under_way
        if look is None or not look.is_known():
            return
        self.under_way = None
        seconds = look.seconds()
        if seconds > 0:
            numbers = look.numbers()
            self.looks += 1
            head = self.heads.setdefault(look.head, HeadTotals(len(self.heads), look))
            head.looks += 1
            head.targets += len(numbers)
            head.ignored += numbers.count(look.ignored)
            head.ignore_index = look.ignored
            head.rows += look.rows
            head.seconds += seconds
            self._tell(look.head)

    def counted(self, heads: Sequence[Optional[Head]]) -> None:
        """Where the backwards of some updates came to."""
        self.counts += 1
        self.counting = False
        for head in heads:
            self.at[head] = self.at.get(head, 0) + 1
        for known in self.heads:
            self._tell(known)

    def _tell(self, which: Head) -> None:
        head = self.heads[which]
        self.steps.session.write(
            IgnoredTargetsEvent(
                looks=head.looks,
                targets=head.targets,
                ignored=head.ignored,
                classes=head.classes,
                seconds=head.seconds,
                head=head.number,
                at_head=self.at.get(which, 0),
                counted=sum(self.at.values()),
                ignore_index=head.ignore_index,
                rows=head.rows,
                width=head.width,
            )
        )


@observer
def ignored_targets(watch: Watch) -> None:
    """Look at the targets of a few backwards."""
    targets = IgnoredTargets(watch.steps)
    watch_hooks(watch.torch)
    watch.before_some_backwards(NAME, targets.sample)
    watch.each_second(NAME, targets.collect)


def _product(node: Any) -> Optional[Any]:
    """The product that the scores come from; None where a loss is given other scores."""
    for _ in range(FURTHEST):
        before = [one for one, _ in node.next_functions if one is not None and variable_of(one) is None]
        if len(before) != 1:  # a bias is a leaf
            return None
        node = before[0]
        if operation_of(node) in PRODUCTS:
            return node
        if not PASSED.fullmatch(operation_of(node).rpartition("Backward")[0]):
            return None
    return None


def _head(loss: Any, product: Any) -> Head:
    """Which head this is: by its weight, the last that is multiplied, if that is a parameter as it is."""
    weight = product.next_functions[-1][0]
    for _ in range(FURTHEST):
        if weight is None or variable_of(weight) is not None or len(weight.next_functions) != 1:
            break
        weight = weight.next_functions[0][0]
    variable = variable_of(weight)
    return _classes(loss), id(variable) if variable is not None else None


def _sizes(product: Any) -> Tuple[int, int]:
    """Rows and columns of what a product multiplies the weight by; zeros where torch does not tell them."""
    for name in ("_saved_mat1_sym_sizes", "_saved_self_sym_sizes"):  # of addmm, of mm; no tensor is asked for
        sizes = getattr(product, name, None)
        if sizes is not None and len(sizes) == 2:
            return int(sizes[0]), int(sizes[1])
    return 0, 0


def _classes(loss: Any) -> Optional[int]:
    """How many scores each position has; None for the scores of a single one, or where nobody tells."""
    scores = loss.next_functions[0][0]
    given: Any = getattr(scores, "_input_metadata", None)
    if given:
        shape = given[0].shape
    elif is_saved_plainly(loss._raw_saved_self):  # torch 2.4 has nothing there
        shape = loss._saved_self.shape
    else:
        return None
    return int(shape[1]) if len(shape) > 1 else None


def _some(target: Any) -> Any:
    """As many of the targets as are read: every n-th, which is not the same place in each row."""
    apart = -(-target.numel() // TARGETS_MAX) or 1
    while any(gcd(apart, length) > 1 for length in target.shape):
        apart += 1
    return target.reshape(-1)[::apart]
