"""Backward passes: outermost ones are a phase, and close a row where no optimizer is seen."""

from __future__ import annotations

from _thread import get_ident
from typing import Any, Callable, Optional, Tuple

from ...wire.step_rows import BACKWARD, BACKWARD_DONE, FORWARD, FRESH, OTHER, UPDATE
from .. import patch
from ..compile_question import compile_question
from ..looks.op_recording import unseen
from ..recorder import AFTER_BACKWARD, BEFORE_BACKWARD, Recorder, clock
from ..schedule import SamplingSchedule
from ..wrapping import Args, Kwargs
from .accumulation import AccumulationDetector
from .backward_call import BackwardCall
from .derivatives import Derivatives
from .forward_names import ForwardNames
from .gradient_clearing import GradientClearing
from .losses import LossReader
from .modules import ModuleCallPhases
from .samples import SampleCount
from .thread import TrainingThread
from .updates import Updates

NAME = "backward"


class Backwards:
    """The backward passes of the thread that trains."""

    def __init__(
        self,
        thread: TrainingThread,
        samples: SampleCount,
        updates: Updates,
        losses: LossReader,
        clearing: GradientClearing,
        schedule: SamplingSchedule,
        names: ForwardNames,
        modules: ModuleCallPhases,
    ) -> None:
        self.thread = thread
        self.samples = samples
        self.updates = updates
        self.losses = losses
        self.clearing = clearing
        self.schedule = schedule
        self.names = names
        self.modules = modules
        self.accumulation = AccumulationDetector(modules.torch)
        self.derivatives = Derivatives(thread, updates, modules)
        self.gradient_sync: Any = None  # of DistributedDataParallel, where there is one

    def wrapped(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """A function of `torch.autograd`, watched: the usual pass in place, others by `before` and `after`.

        Before a usual one an optimizer was seen, nothing is due, and nobody looks at backward passes.
        """
        return self._watched(original, self.before)

    def _watched(self, original: Callable[..., Any], before: patch.Before) -> Callable[..., Any]:
        other = patch.around(original, before, self.after, NAME)
        return patch.finished(self._in_place(original, other), original, NAME)

    def wrapped_grad(self, original: Callable[..., Any]) -> Callable[..., Any]:
        """The same for `torch.autograd.grad`; where it derives with respect to data it trains nothing."""
        tracing, compiler = compile_question()
        derivatives, training = self.derivatives, self._watched(original, self.before_grad)
        of_data = patch.guarded(NAME, unseen(derivatives.is_of_data))
        apart = patch.around(original, derivatives.before, derivatives.after, NAME)

        def wrapper(*args: Any, **kwargs: Any) -> Any:
            if tracing() or compiler._is_compiling_flag:
                return original(*args, **kwargs)
            try:
                return (apart if of_data(args, kwargs) else training)(*args, **kwargs)
            except BaseException as error:
                patch.cut(error)
                raise

        return patch.finished(wrapper, original, NAME)

    def _in_place(self, original: Callable[..., Any], other: Callable[..., Any]) -> Callable[..., Any]:
        tracing, compiler = compile_question()
        session, thread, samples, schedule = self.thread.session, self.thread, self.samples, self.schedule
        updates, clearing, names, turned_off = self.updates, self.clearing, self.names, patch.turned_off
        read, made = self.losses.read, patch.part(NAME, self._made)

        def wrapper(*args: Any, **kwargs: Any) -> Any:
            if tracing() or compiler._is_compiling_flag:
                return original(*args, **kwargs)
            try:
                recorder = session.recorder
                before = BEFORE_BACKWARD[recorder.current] if recorder is not None and recorder.free else None
                if (
                    recorder is None
                    or before is None
                    or recorder.level < UPDATE
                    or recorder.owner != get_ident()
                    or schedule.backwards + 1 >= schedule.next
                    or not schedule.next_ns > recorder.since < thread.next_pulse_ns
                    or schedule.looks
                    or clearing.open
                    or names.wanted
                    or samples.evaluated
                    or not args
                    or turned_off  # of whatever kind: what follows asks
                ):
                    return other(*args, **kwargs)
                now = clock()
                recorder.spent[before] += now - recorder.since
                if recorder.undecided:
                    recorder.decide(FORWARD, FORWARD, FORWARD)
                recorder.since, recorder.current = now, BACKWARD
                recorder.switches += 1
                sync = self.gradient_sync
                try:  # a signal's handler may raise anywhere from here on
                    updates.in_backward = True
                    if sync is not None:
                        sync.before_backward(recorder)
                    schedule.backwards += 1
                    recorder.samples += samples.pending
                    samples.pending = 0
                    return original(*args, **kwargs)
                finally:
                    updates.in_backward = False
                    if recorder.stack:
                        updates.unwind(recorder, 0)
                    now = clock()
                    recorder.spent[recorder.current] += now - recorder.since
                    recorder.since, recorder.current = now, AFTER_BACKWARD
                    if sync is not None:
                        sync.after_backward(recorder)
                    recorder.backwards += 1
                    read(recorder, args[0], False)
                    if updates.made_in_backward:
                        made(recorder)
            except BaseException as error:
                patch.cut(error)
                raise

        return wrapper

    def _made(self, recorder: Recorder) -> None:
        """Close the row of updates that hooks of this pass made."""
        recorder.current = OTHER
        self.updates.made_in_backward = False
        self.updates.close(recorder)

    def before_grad(self, args: Args, kwargs: Kwargs) -> Optional[Tuple[Recorder, Any, int]]:
        """The same before `torch.autograd.grad`, which adds nothing to gradients."""
        return self.before(args, kwargs, adds=False)

    def before(self, args: Args, kwargs: Kwargs, adds: bool = True) -> Optional[Tuple[Recorder, Any, int]]:
        """Enter backward; the time since the forward was the loss."""
        updates = self.updates
        if updates.in_backward:
            for call in self.thread.moments.nested_backward:
                call()
            return None
        recorder = self.thread.recorder(BACKWARD_DONE)
        if recorder is None:
            return None
        recorder.enter(BACKWARD)
        recorder.decide(FORWARD, FORWARD, FORWARD)
        updates.in_backward = True
        loss = args[0] if args else kwargs.get("tensors", kwargs.get("outputs"))
        if self.gradient_sync is not None:
            self.gradient_sync.before_backward(recorder)
        if recorder.since >= self.thread.next_pulse_ns:
            self.thread.pulse()
        if recorder.level < UPDATE and self.accumulation.is_fresh(loss) and not recorder.backwards:
            recorder.flags |= FRESH
        if self.clearing.open:
            self.clearing.before_backward()
        schedule = self.schedule
        if schedule.backwards + 1 < schedule.next and recorder.since < schedule.next_ns:
            schedule.backwards += 1  # as it would itself
        else:
            schedule.before_backward(recorder, loss)
        if schedule.looks:
            schedule.begin_looks(BackwardCall(adds, args, kwargs))
        if self.names.wanted:
            self.names.before_backward()
        counted = self.samples
        if counted.evaluated:
            self.modules.before_backward(recorder)
        samples, counted.pending, counted.evaluated = counted.pending, 0, False
        if not (updates.open and recorder.backwards):  # a closure goes over the same batch again
            recorder.samples += samples
        return recorder, loss, len(recorder.stack)

    def after(self, token: Tuple[Recorder, Any, int], args: Args, result: Any) -> None:
        """Leave backward; updates that its hooks made close the step here."""
        updates = self.updates
        updates.in_backward = False
        recorder, loss, depth = token
        updates.unwind(recorder, depth)
        if updates.made_in_backward:
            recorder.leave()
        else:
            recorder.leave_to(AFTER_BACKWARD)
        if self.gradient_sync is not None:
            self.gradient_sync.after_backward(recorder)
        recorder.backwards += 1
        if self.clearing.open:
            self.clearing.after_backward()
        if self.schedule.looks:
            self.schedule.end_looks(result)
        # An optimizer's closure is called several times: the first value is the loss.
        self.losses.read(recorder, loss, bool(updates.open) and recorder.backwards > 1)
        if updates.made_in_backward:
            updates.made_in_backward = False
            updates.close(recorder)
            return
        if recorder.level < UPDATE:
            self.accumulation.remember()
            if not updates.open:
                recorder.mark(BACKWARD_DONE)
