"""Backward passes: outermost ones are a phase, and close a row where no optimizer is seen."""

from __future__ import annotations

from typing import Any, Dict, Optional, Tuple

from ...wire.step_rows import BACKWARD, BACKWARD_DONE, FORWARD, FRESH, UPDATE
from ..recorder import AFTER_BACKWARD, Recorder
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

    def before(self, args: Args, kwargs: Kwargs) -> Optional[Tuple[Recorder, Any]]:
        """Enter backward; the time since the forward was the loss."""
        updates = self.updates
        if updates.in_backward:
            for call in self.thread.moments.nested_backward:
                call()
            return None
        recorder = self.thread.recorder()
        if recorder is None:
            return None
        updates.in_backward = True
        recorder.enter(BACKWARD)
        recorder.decide(FORWARD, FORWARD, FORWARD)
        if self.gradient_sync is not None:
            self.gradient_sync.before_backward(recorder)
        if recorder.since >= self.thread.next_pulse_ns:
            self.thread.pulse()
        loss = args[0] if args else kwargs.get("tensors", kwargs.get("outputs"))
        if recorder.level < UPDATE and self.accumulation.is_fresh(loss) and not recorder.backwards:
            recorder.flags |= FRESH
        if self.clearing.open:
            self.clearing.before_backward()
        self.schedule.before_backward(recorder, loss)
        if self.schedule.looks:
            for look in self.schedule.looks[:]:
                look.before_backward(loss)
        if self.names.wanted:
            self.names.before_backward()
        samples = self.samples.take()
        if not (updates.open and recorder.backwards):  # a closure goes over the same batch again
            recorder.samples += samples
        return recorder, loss

    def after(self, token: Tuple[Recorder, Any], args: Args, result: Any) -> None:
        """Leave backward; updates that its hooks made close the step here."""
        updates = self.updates
        updates.in_backward = False
        recorder, loss = token
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
            for look in self.schedule.looks[:]:
                look.after_backward()
        # An optimizer's closure is called several times: the first value is the loss.
        self.losses.read(recorder, loss, bool(updates.open) and recorder.backwards > 1)
        if updates.made_in_backward:
            updates.made_in_backward = False
            updates.close(recorder, 1)
            return
        if recorder.level < UPDATE:
            self.accumulation.remember()
            if not updates.open:
                recorder.mark(BACKWARD_DONE)
