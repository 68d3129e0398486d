"""Updates: outermost steps of optimizers, which close a row, and of GradScalers, which may skip one."""

from __future__ import annotations

import weakref
from _thread import get_ident
from typing import Any, Dict, List, Optional, Tuple

from ...wire.step_rows import OPTIMIZER, OTHER, SKIPPED, UPDATE, VALIDATION
from ..recorder import AFTER_BACKWARD, AFTER_FORWARD, EVAL_FORWARD, OUTERMOST, Recorder, clock
from .gradient_clearing import GradientClearing, UpdateCounts
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
        self.several_losses = False  # a further optimizer made its first update after a backward of its own
        # Identity, number and verdicts of the last one: a weak look-up costs as much as the rest.
        self.last: Tuple[int, int, Optional[UpdateCounts]] = (0, 0, None)
        self.open: List[Tuple[int, int]] = []  # (identity, depth of the phases below it)
        self.inner_steps = 0  # optimizer steps inside the outermost update
        self.in_backward = False  # a backward is under way, which closes the row of updates inside it
        self.made_in_backward = False

    def begins(self, optimizer: Any) -> None:
        """torch's hook before any optimizer's step."""
        recorder = self.session.recorder
        if (
            recorder is None
            or recorder.off
            or recorder.held
            or recorder.stack
            or recorder.base != OTHER
            or not OTHER <= recorder.current <= AFTER_BACKWARD
            or recorder.owner != get_ident()
            or self.in_backward
            or self.open
        ):
            self._begin(id(optimizer))
            self.inner_steps += 1
            return
        self.thread.known = True
        now = clock()
        spent = recorder.spent
        spent[recorder.current] += now - recorder.since
        if recorder.undecided:
            spent[OTHER] += spent[AFTER_FORWARD]
            spent[OPTIMIZER] += spent[AFTER_BACKWARD]
            spent[VALIDATION] += spent[EVAL_FORWARD]
            spent[AFTER_FORWARD] = spent[AFTER_BACKWARD] = spent[EVAL_FORWARD] = 0
            recorder.undecided = False
        recorder.since = now
        recorder.current = recorder.base = OPTIMIZER
        recorder.switches += 1
        self.open = [(id(optimizer), OUTERMOST)]
        self.inner_steps = 1

    def ends(self, optimizer: Any) -> None:
        """torch's hook after any optimizer's step: leave the update, and close a row if it was outermost."""
        recorder = self.session.recorder
        if not self.open or recorder is None or recorder.off or recorder.owner != get_ident():
            return
        identity, depth = self.open[-1]
        if depth != OUTERMOST or recorder.stack:
            del self.open[-1]
            self._leave(recorder, depth)
        else:
            self.open = []
            now = clock()
            recorder.spent[recorder.current] += now - recorder.since
            recorder.since = now
            recorder.current = OTHER
        if recorder.undecided:
            recorder.decide(OPTIMIZER, OPTIMIZER, OPTIMIZER)
        if self.open:
            return
        recorder.base = OTHER
        if self.in_backward:
            return
        if identity != self.last[0] and id(optimizer) != self.last[0]:  # a scaler's update has the scaler's
            self._recall(optimizer)
        _, number, counts = self.last
        recorder.level = UPDATE
        recorder.updates += 1
        recorder.marks += 1
        if number == 1:
            recorder.first_optimizer_marks += 1
        if recorder.marks >= recorder.merge:
            recorder.close(UPDATE, number)
        if recorder.since >= self.thread.next_pulse_ns:
            self.thread.pulse()
        if recorder.max_marks is not None:
            self._end_watch(recorder)
        for call in self.thread.moments.update:
            call(recorder, number)
        if counts is not None:
            counts.updates += 1
            if counts.updates >= counts.next or self.clearing.open:
                self.clearing.judge(optimizer, counts)

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
        self.ends(optimizer)

    def close(self, recorder: Recorder) -> None:
        """Close the row of updates that were made inside a backward pass."""
        recorder.mark(UPDATE, 1)
        if recorder.since >= self.thread.next_pulse_ns:
            self.thread.pulse()
        if recorder.max_marks is not None:
            self._end_watch(recorder)
        for call in self.thread.moments.update:
            call(recorder, 1)

    def _end_watch(self, recorder: Recorder) -> None:
        """End the watch if this was the last update of the last step."""
        assert recorder.max_marks is not None
        # With several optimizers the step is not over until the first one comes round again.
        over = recorder.first_optimizer_marks - recorder.max_marks
        if over > 0 or (over == 0 and len(self.numbers) <= 1):
            recorder.off = True
            recorder.on_off()

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
                self._leave(recorder, depth)
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

    def _leave(self, recorder: Recorder, depth: int) -> None:
        """Leave an update, and what an exception left open inside it."""
        recorder.unwind(max(depth, 0))
        if depth == OUTERMOST:
            recorder.touch()
            recorder.current = OTHER

    def _recall(self, optimizer: Any) -> None:
        """Look up what is known of an optimizer."""
        self.last = id(optimizer), self._number(optimizer), self.clearing.counts_of(optimizer)

    def _number(self, optimizer: Any) -> int:
        number = self.numbers.get(optimizer)
        if number is None:
            number = self.numbers[optimizer] = len(self.numbers) + 1
            recorder = self.session.recorder
            self.several_losses |= number > 1 and recorder is not None and recorder.backwards > 0
            for call in self.thread.moments.optimizer:
                call(optimizer, number)
        return number
