"""Updates: outermost steps of optimizers, which close a row, and of GradScalers, which may skip one."""

from __future__ import annotations

import weakref
from _thread import get_ident
from typing import Any, Dict, List, Optional, Tuple

from ...wire.step_rows import OPTIMIZER, OTHER, SKIPPED, UPDATE, VALIDATION
from ..recorder import Recorder
from .gradient_clearing import GradientClearing
from .thread import TrainingThread

Args = Tuple[Any, ...]
Kwargs = Dict[str, Any]


class Updates:
    """The optimizers of a process, and the updates that are open."""

    def __init__(self, thread: TrainingThread, clearing: GradientClearing) -> None:
        self.thread = thread
        self.session = thread.session
        self.clearing = clearing
        self.numbers: weakref.WeakKeyDictionary[Any, int] = weakref.WeakKeyDictionary()
        self.last = (0, 0)  # identity and number: a weak look-up costs as much as the rest
        self.open: List[Tuple[int, int]] = []  # (identity, depth of the phases below it)
        self.inner_steps = 0  # optimizer steps inside the outermost update
        self.in_backward = False  # a backward is under way, which closes the row of updates inside it
        self.made_in_backward = False

    def begins(self, optimizer: Any) -> None:
        """torch's hook before any optimizer's step."""
        self._begin(id(optimizer))
        self.inner_steps += 1

    def ends(self, optimizer: Any) -> None:
        """torch's hook after any optimizer's step."""
        self._end(optimizer)

    def before_scaled_step(self, args: Args, kwargs: Kwargs) -> Optional[Any]:
        """A scaler's step is the update, even when it skips the optimizer's."""
        optimizer = args[1] if len(args) > 1 else kwargs.get("optimizer")
        self._begin(id(args[0]))
        return optimizer

    def after_scaled_step(self, optimizer: Any, args: Args, result: Any) -> None:
        """Close the update, marked if the optimizer was not called."""
        recorder = self.session.recording()
        if recorder is not None and not self.inner_steps:
            recorder.flags |= SKIPPED
        self._end(optimizer)

    def close(self, recorder: Recorder, number: int) -> None:
        """Close the row of an update, and end the watch if it was the last one."""
        recorder.mark(UPDATE, number)
        if recorder.since >= self.thread.next_pulse_ns:
            self.thread.pulse()
        if recorder.max_marks is not None:
            # With several optimizers the step is not over until the first one comes round again.
            over = recorder.first_optimizer_marks - recorder.max_marks
            if over > 0 or (over == 0 and len(self.numbers) <= 1):
                recorder.off = True
                recorder.on_off()
        for call in self.thread.moments.update:
            call(recorder, number)

    def _begin(self, identity: int) -> None:
        recorder = self.session.recorder
        if recorder is not None and recorder.owner != get_ident() and self.in_backward:
            self.made_in_backward = True  # a gradient hook, in a thread of autograd's own
            return
        recorder = self.thread.recorder()
        if recorder is None:
            return
        for position, (known, depth) in enumerate(self.open):
            if known == identity:  # its last step was left by an exception
                recorder.unwind(depth)
                del self.open[position:]
                break
        if not self.open:
            if self.in_backward:
                self.made_in_backward = True
            else:
                self.inner_steps = 0
        self.open.append((identity, len(recorder.stack)))
        recorder.enter(OPTIMIZER)
        if len(self.open) == 1 and not self.in_backward:
            recorder.decide(OTHER, OPTIMIZER, VALIDATION)
        recorder.base = OPTIMIZER

    def _end(self, optimizer: Any) -> None:
        recorder = self.session.recording()
        if recorder is None or not self.open:
            return
        recorder.unwind(self.open.pop()[1])
        recorder.decide(OPTIMIZER, OPTIMIZER, OPTIMIZER)
        if self.open:
            return
        recorder.base = OTHER
        if not self.in_backward:
            self.close(recorder, self._number(optimizer))
            self.clearing.updated(optimizer)

    def _number(self, optimizer: Any) -> int:
        if id(optimizer) == self.last[0]:
            return self.last[1]
        number = self.numbers.get(optimizer)
        if number is None:
            number = self.numbers[optimizer] = len(self.numbers) + 1
            for call in self.thread.moments.optimizer:
                call(optimizer, number)
        self.last = (id(optimizer), number)
        return number
