"""Updates: outermost steps of optimizers, which close a row, and of GradScalers, which may skip one.

torch's hook behind a step is not called where the step raises: such an update stays open until the next one
begins, or until the phase ends that it was made in.
"""

from __future__ import annotations

import sys
import weakref
from _thread import get_ident
from types import CodeType, FrameType, FunctionType
from typing import Any, Callable, List, Optional, Tuple

from ...wire.step_rows import OPTIMIZER, OTHER, SKIPPED, UPDATE, VALIDATION
from .. import patch
from ..by_identity import ByIdentity
from ..compile_question import compile_question
from ..recorder import BEFORE_UPDATE, OUTERMOST, Recorder, clock
from ..wrapping import Args, Kwargs
from .gradient_clearing import GradientClearing, UpdateCounts
from .thread import TrainingThread

Hook = Callable[[Any, Any, Any], None]
Last = Tuple[Callable[[], Any], int, Optional[UpdateCounts]]

NAME = "optimizer"
NO_TASK = -1  # of autograd's, in the calling thread
SCALER = 0  # in the place of an optimizer's identity; the end of its step is seen also where it raises


class Updates:
    """The optimizers of a process, and the updates that are open."""

    def __init__(self, thread: TrainingThread, clearing: GradientClearing, torch: Any) -> None:
        self.thread = thread
        self.session = thread.session
        self.clearing = clearing
        # Not so where a hook of a backward updates that was not called by torch.autograd.
        self.graph_task = getattr(torch._C, "_current_graph_task_id", lambda: NO_TASK + 1)
        self.hooked_step = _hooked_step(torch.optim.Optimizer)
        self.numbers: ByIdentity[int] = ByIdentity()
        self.several_losses = False  # a further optimizer made its first update after a backward of its own
        # The last one with its number and verdicts: a weak look-up of these costs as much as the rest.
        self.last: Last = (lambda: None, 0, None)
        self.open: List[Tuple[int, int]] = []  # (identity, depth of the phases below it)
        self.inner_steps = 0  # optimizer steps inside the outermost update
        self.in_backward = False  # a backward is under way, which closes the row of updates inside it
        self.made_in_backward = False
        self.closing = False  # the row of such updates: the call of backward is still on the stack

    def hooks(self) -> Tuple[Hook, Hook]:
        """torch's hooks before and after an optimizer's step: a usual one begins in place."""
        tracing, compiler = compile_question()
        begins, ends = patch.optimizer_hook(NAME, self.begins), patch.optimizer_hook(NAME, self.ends)
        session, thread, turned_off = self.session, self.thread, patch.turned_off

        def hook(optimizer: Any, args: Any, kwargs: Any) -> None:
            if tracing() or compiler._is_compiling_flag:
                return
            try:  # a signal's handler may raise anywhere from here on
                recorder = session.recorder
                before = BEFORE_UPDATE[recorder.current] if recorder is not None and recorder.free else None
                if recorder is None or before is None or recorder.owner != get_ident() or turned_off:
                    begins(optimizer, args, kwargs)
                    return
                thread.shown = UPDATE
                now = clock()
                recorder.spent[before] += now - recorder.since
                if recorder.undecided:
                    recorder.decide(OTHER, OPTIMIZER, VALIDATION)
                recorder.since = now
                recorder.current = recorder.base = OPTIMIZER
                recorder.free = False
                recorder.switches += 1
                self.open = [(id(optimizer), OUTERMOST)]
                self.inner_steps = 1
            except BaseException as error:
                patch.cut(error)
                raise

        return hook, ends

    def begins(self, optimizer: Any) -> None:
        """Enter an update that lies inside something else, or may."""
        self._begin(id(optimizer))
        self.inner_steps += 1

    def ends(self, optimizer: Any, identity: Optional[int] = None) -> None:
        """Leave the update, and close a row if it was outermost."""
        recorder = self.session.recorder
        if not self.open or recorder is None or recorder.off or recorder.owner != get_ident():
            return
        if self.open[-1][1] != OUTERMOST or recorder.stack:
            self._leave(recorder, id(optimizer) if identity is None else identity)
            recorder.decide(OPTIMIZER, OPTIMIZER, OPTIMIZER)
            if self.open:
                return
        else:
            self.open = []
            now = clock()
            recorder.spent[OPTIMIZER] += now - recorder.since
            recorder.since = now
            recorder.current = OTHER
            if recorder.undecided:
                recorder.decide(OPTIMIZER, OPTIMIZER, OPTIMIZER)
        recorder.base = OTHER
        recorder.free = not (recorder.held or recorder.stack)
        if self.in_backward:
            return
        if self.last[0]() is not optimizer:
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
        moments = self.thread.moments
        if moments.border is not None:
            moments.border(recorder, number, self.graph_task)
        due = False
        if counts is not None:
            counts.updates += 1
            due = counts.updates >= counts.next or bool(self.clearing.open)
        if (due or moments.update) and self.graph_task() == NO_TASK:  # else autograd's engine is under way
            for call in moments.update:
                call(recorder, number)
            if due:
                self.clearing.judge(optimizer, counts)

    def before_scaled_step(self, args: Args, kwargs: Kwargs) -> Optional[Any]:
        """A scaler's step is the update, even when it skips the optimizer's."""
        optimizer = args[1] if len(args) > 1 else kwargs.get("optimizer")
        self._begin(SCALER)
        return optimizer

    def after_scaled_step(self, optimizer: Any, args: Args, result: Any) -> None:
        """Close the update, marked if the optimizer was not called."""
        recorder = self.session.recording()
        if recorder is not None and not self.inner_steps:
            recorder.flags |= SKIPPED
        self.ends(optimizer, SCALER)

    def close(self, recorder: Recorder) -> None:
        """Close the row of updates that were made inside a backward pass."""
        recorder.mark(UPDATE, 1)
        if recorder.since >= self.thread.next_pulse_ns:
            self.thread.pulse()
        if recorder.max_marks is not None:
            self._end_watch(recorder)
        moments = self.thread.moments
        self.closing = True
        try:
            if moments.border is not None:
                moments.border(recorder, 1, self.graph_task)
            if moments.update and self.graph_task() == NO_TASK:
                for call in moments.update:
                    call(recorder, 1)
        finally:
            self.closing = False

    def _end_watch(self, recorder: Recorder) -> None:
        """End the watch if this was the last update of the last step."""
        assert recorder.max_marks is not None
        # With several optimizers the step is not over until the first one comes round again.
        over = recorder.first_optimizer_marks - recorder.max_marks
        if over > 0 or (over == 0 and len(self.numbers) <= 1):
            recorder.end()
            recorder.on_off()

    def _begin(self, identity: int) -> None:
        recorder = self.session.recorder
        if recorder is not None and recorder.owner != get_ident() and (self.in_backward or self.thread.shown):
            # A gradient hook, in a thread of autograd's own; one of the script's has no part in this step.
            hooked = self.graph_task() != NO_TASK
            self.made_in_backward |= hooked and self.in_backward
            if hooked or self.in_backward:
                return
        recorder = self.thread.recorder(UPDATE)
        if recorder is None:
            return
        if self.open:
            self._drop_failed(recorder, identity)
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

    def _leave(self, recorder: Recorder, identity: int) -> None:
        """Leave an update, and those that an exception left open inside it."""
        for position in range(len(self.open) - 1, -1, -1):
            known, depth = self.open[position]
            if known == identity:
                del self.open[position:]
                recorder.unwind(max(depth, 0))
                if depth == OUTERMOST:
                    recorder.touch()
                    recorder.current = OTHER
                return

    def unwind(self, recorder: Recorder, depth: int) -> None:
        """Drop what an exception left open inside a phase that ends, above `depth` phases around it."""
        if len(recorder.stack) > depth:
            recorder.unwind(depth)
            self.open = [update for update in self.open if update[1] < depth]
            if not self.open:
                recorder.base = OTHER
                recorder.rest()

    def _drop_failed(self, recorder: Recorder, beginning: int) -> None:
        """As another begins, drop the updates whose steps are not under way: an exception ended them."""
        if all(identity == SCALER for identity, _ in self.open):
            return
        running = self._running()
        if beginning in running:
            running.remove(beginning)
        for position in range(len(self.open) - 1, -1, -1):
            identity, depth = self.open[position]
            if identity in running:
                running.remove(identity)
            elif identity != SCALER:
                del self.open[position]
                recorder.take_out(depth)

    def _running(self) -> List[int]:
        """The optimizers whose steps are on the stack of this thread."""
        running = []
        frame: Optional[FrameType] = sys._getframe(1)
        while frame is not None:
            if frame.f_code is self.hooked_step:
                running.append(id(frame.f_locals.get("self")))
            frame = frame.f_back
        return running

    def _recall(self, optimizer: Any) -> None:
        """Look up what is known of an optimizer."""
        self.last = weakref.ref(optimizer), self._number(optimizer), self.clearing.counts_of(optimizer)

    def _number(self, optimizer: Any) -> int:
        number = self.numbers.get(optimizer)
        if number is None:  # the lowest that is free: optimizers of a sweep that follow each other are no GAN
            taken = set(self.numbers.values())
            number = self.numbers[optimizer] = min(set(range(1, len(taken) + 2)) - taken)
            recorder = self.session.recorder
            self.several_losses |= number > 1 and recorder is not None and recorder.backwards > 0
            for call in self.thread.moments.optimizer:
                call(optimizer, number)
        return number


def _hooked_step(optimizer: Any) -> Optional[CodeType]:
    """What torch puts around the step of each class of optimizers: its frame tells that one is under way."""
    hook = getattr(optimizer, "profile_hook_step", None)
    consts = hook.__code__.co_consts if isinstance(hook, FunctionType) else ()
    return next((const for const in consts if isinstance(const, CodeType)), None)
