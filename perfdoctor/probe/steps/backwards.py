"""Backward passes: outermost ones are a phase, and close a row where no optimizer is seen."""

from __future__ import annotations

from _thread import get_ident
from typing import Any, Dict, Optional, Tuple

from ...wire.step_rows import BACKWARD, BACKWARD_DONE, FORWARD, FRESH, OTHER, UPDATE
from ..recorder import AFTER_BACKWARD, AFTER_FORWARD, EVAL_FORWARD, Recorder, clock
from ..schedule import SamplingSchedule
from .accumulation import AccumulationDetector
from .forward_names import ForwardNames
from .gradient_clearing import GradientClearing
from .losses import LossReader
from .samples import SampleCount
from .thread import TrainingThread
from .updates import Updates

Args = Tuple[Any, ...]
Kwargs = Dict[str, Any]


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
    ) -> None:
        self.thread = thread
        self.samples = samples
        self.updates = updates
        self.losses = losses
        self.clearing = clearing
        self.schedule = schedule
        self.names = names
        self.accumulation = AccumulationDetector()
        self.gradient_sync: Any = None  # of DistributedDataParallel, where there is one

    def before(self, args: Args, kwargs: Kwargs) -> Optional[Tuple[Recorder, Any, int]]:
        """Enter backward; the time since the forward was the loss."""
        updates = self.updates
        if updates.in_backward:
            for call in self.thread.moments.nested_backward:
                call()
            return None
        recorder = self.thread.session.recorder
        inside = (
            recorder is None
            or recorder.off
            or recorder.held
            or bool(recorder.stack)
            or recorder.base != OTHER
            or not OTHER <= recorder.current <= AFTER_BACKWARD
            or recorder.owner != get_ident()
        )
        if recorder is None or inside:
            recorder = self.thread.recorder()
            if recorder is None:
                return None
            recorder.enter(BACKWARD)
            recorder.decide(FORWARD, FORWARD, FORWARD)
        else:
            self.thread.known = True
            now = clock()
            spent = recorder.spent
            spent[recorder.current] += now - recorder.since
            if recorder.undecided:
                spent[FORWARD] += spent[AFTER_FORWARD] + spent[AFTER_BACKWARD] + spent[EVAL_FORWARD]
                spent[AFTER_FORWARD] = spent[AFTER_BACKWARD] = spent[EVAL_FORWARD] = 0
                recorder.undecided = False
            recorder.since = now
            recorder.current = BACKWARD
            recorder.switches += 1
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
            for look in schedule.looks[:]:
                look.before_backward(loss)
        if self.names.wanted:
            self.names.before_backward()
        counted = self.samples
        samples, counted.pending, counted.evaluated = counted.pending, 0, False
        if not (updates.open and recorder.backwards):  # a closure goes over the same batch again
            recorder.samples += samples
        return recorder, loss, len(recorder.stack) if inside else 0

    def after(self, token: Tuple[Recorder, Any, int], args: Args, result: Any) -> None:
        """Leave backward; updates that its hooks made close the step here."""
        updates = self.updates
        updates.in_backward = False
        recorder, loss, depth = token
        if depth or recorder.stack:
            updates.unwind(recorder, depth)
        if not depth:
            now = clock()
            recorder.spent[recorder.current] += now - recorder.since
            recorder.since = now
            recorder.current = OTHER if updates.made_in_backward else AFTER_BACKWARD
            recorder.undecided |= not updates.made_in_backward
        elif updates.made_in_backward:
            recorder.leave()
        else:
            recorder.leave_to(AFTER_BACKWARD)
        if self.gradient_sync is not None:
            self.gradient_sync.after_backward(recorder)
        recorder.backwards += 1
        if self.clearing.open:
            self.clearing.after_backward()
        if self.schedule.looks:
            for look in self.schedule.looks[:]:
                look.after_backward()
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
