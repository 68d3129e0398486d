"""Tells whether gradients are cleared between updates, by one parameter of each optimizer, at few updates.

From the end of an update on, each backward first asks whether the parameter's gradient changed since the
last one: cleared, or set anew. A gradient that never did by the optimizer's next update, and that a
backward has added to, still holds what the step before left in it.
"""

from __future__ import annotations

import weakref
from typing import Any, Callable, Dict, List, Optional

from ...wire.events.training import GradientClearingEvent
from .. import patch
from ..looks.op_recording import recording_question, unseen
from ..module_parts import gradient_of
from ..session import Session
from ..user_frames import user_line

EACH = 16  # updates of an optimizer that are looked at one by one; then 32, 64, 128, ...
OPTIMIZERS_MAX = 4  # watched, in the order of their first updates
PARAMETERS_MAX = 64  # the smallest of the first so many is looked at
PIECE = 1_024  # elements of its gradient that are added up


class _WatchedGradients:
    """One gradient, from the end of one update to the next."""

    def __init__(self, leaf: Any) -> None:
        gradient = leaf.grad
        self.leaf = weakref.ref(leaf)
        self.gradient = weakref.ref(gradient)
        self.version = gradient._version
        self.sum = _sum(gradient)
        self.cleared = self.sum == 0.0  # inside the update, or nothing to tell a cleared one from
        self.grew = False

    def now(self) -> Any:
        """The gradient, or None where it is another one by now."""
        leaf, gradient = self.leaf(), self.gradient()
        return gradient if leaf is not None and gradient is not None and leaf.grad is gradient else None

    def before_backward(self) -> None:
        """It was cleared, if it is not what it was."""
        now = self.now()
        self.cleared |= now is None or now._version != self.version or _sum(now) != self.sum

    def after_backward(self) -> None:
        """Take it as this backward left it."""
        now = self.now()
        if now is not None and now._version != self.version:
            self.grew, self.version, self.sum = True, now._version, _sum(now)


class UpdateCounts:
    """The verdicts on one optimizer."""

    def __init__(self, number: int, optimizer: Any) -> None:
        self.number = number
        self.optimizer = weakref.ref(optimizer)  # its identity may become another's
        self.updates = 0
        self.next = 2  # the first update has nothing before it
        self.kept = self.cleared = self.written = 0
        self.step_line: Optional[Dict[str, Any]] = None


class GradientClearing:
    """The optimizers of one process."""

    def __init__(self, session: Session, torch: Any) -> None:
        self.session = session
        self.torch = torch
        self.counts: List[UpdateCounts] = []
        self.open: Dict[int, _WatchedGradients] = {}  # by number of the optimizer
        self.backward_line: Optional[Dict[str, Any]] = None
        self.by_value = True  # whether a gradient cleared behind torch's back would show
        self.is_recording = recording_question()
        self.is_profiled = torch._C._autograd._profiler_enabled
        self.before_backward = patch.guarded("clearing", self._unseen(self._before_backward))
        self.after_backward = patch.guarded("clearing", self._unseen(self._after_backward))
        self.judge = patch.guarded("clearing", self._unseen(self._judge))

    def _unseen(self, act: Callable[..., None]) -> Callable[..., None]:
        """`act`, where the script does not see operators of ours, with its function modes kept out."""

        acts = unseen(act)

        def call(*args: Any) -> None:
            if self.is_recording() or self.is_profiled():
                self.open.clear()  # what happens to these gradients would be missed
                return
            acts(*args)

        return call

    def counts_of(self, optimizer: Any) -> Optional[UpdateCounts]:
        """What `updates` of an optimizer are added up in, or None where it is not looked at."""
        for counts in self.counts:
            if counts.optimizer() is optimizer:
                return counts
        if len(self.counts) == OPTIMIZERS_MAX:
            return None
        self.counts.append(UpdateCounts(len(self.counts) + 1, optimizer))
        return self.counts[-1]

    def _judge(self, optimizer: Any, counts: UpdateCounts) -> None:
        """After an outermost update: conclude the stretch that ends here, open the next one if it is due."""
        watch = self.open.pop(counts.number, None)
        if watch is not None and (watch.cleared or watch.now() is None):
            counts.cleared += 1
        elif watch is not None and watch.grew:
            counts.kept += 1
            counts.step_line = counts.step_line or user_line()
        if counts.updates < counts.next:
            return
        counts.next = counts.next + 1 if counts.next < EACH else 2 * counts.next
        leaf = self._leaf(optimizer)
        if leaf is None:
            counts.cleared += 1
        else:
            self.open[counts.number] = _WatchedGradients(leaf)
            self.by_value &= leaf.is_cpu

    def _leaf(self, optimizer: Any) -> Any:
        """The smallest of the optimizer's first parameters that has a plain gradient, or None."""
        leaves = [leaf for group in optimizer.param_groups for leaf in group["params"][:PARAMETERS_MAX]]
        plain = [leaf for leaf in leaves[:PARAMETERS_MAX] if self._is_plain(gradient_of(leaf))]
        return min(plain, key=lambda leaf: leaf.numel(), default=None)

    def _is_plain(self, gradient: Any) -> bool:
        torch = self.torch
        return type(gradient) is torch.Tensor and gradient.layout == torch.strided and gradient.numel() > 0

    def _before_backward(self) -> None:
        self.backward_line = self.backward_line or user_line()
        for number, watch in list(self.open.items()):
            if watch.leaf() is None:
                del self.open[number]
            else:
                watch.before_backward()

    def _after_backward(self) -> None:
        for watch in self.open.values():
            watch.after_backward()

    def pulse(self) -> None:
        """Write the verdicts on each optimizer that were added."""
        for counts in self.counts:
            if counts.kept + counts.cleared != counts.written:
                counts.written = counts.kept + counts.cleared
                self.session.write(
                    GradientClearingEvent(
                        optimizer=counts.number,
                        kept=counts.kept,
                        cleared=counts.cleared,
                        by_value=self.by_value,
                        lines=[line for line in (self.backward_line, counts.step_line) if line is not None],
                    )
                )


def _sum(gradient: Any) -> Optional[float]:
    """A number that clearing changes; None on a device, which would have to be waited for."""
    if not gradient.is_cpu:
        return None
    return float(gradient.detach().reshape(-1)[:PIECE].sum().item())
