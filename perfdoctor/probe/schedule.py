"""When to do what costs too much for every step: before backwards 2, 4, 8, ... and about once a second."""

from __future__ import annotations

from typing import Any, Callable, List, Optional, Protocol

from . import patch
from .looks.op_recording import unseen
from .recorder import Recorder
from .session import PULSE_NS
from .steps.backward_call import BackwardCall

FIRST = 2  # the first backward may be one of warm-up


class BackwardLook(Protocol):
    """What looks at every backward for a while, and takes itself off the schedule when it has seen enough."""

    def before_backward(self, loss: Any) -> None:
        """A backward begins."""

    def after_backward(self) -> None:
        """It has ended."""


class SamplingSchedule:
    """Calls `sample(recorder, loss)` before some of the backwards of the thread that trains."""

    def __init__(self) -> None:
        self.samples: List[Callable[[Recorder, Any], None]] = []
        self.backwards = 0
        self.next = FIRST
        self.next_ns = 0
        self.looks: List[BackwardLook] = []  # that are open; nearly always none
        self.call: Optional[BackwardCall] = None  # that the looks are told of
        self.begin_looks, self.end_looks = unseen(self._begin_looks), unseen(self._end_looks)

    def add(self, name: str, sample: Callable[[Recorder, Any], None]) -> None:
        """From now on call `sample`; an error of its own ends its part only."""
        self.samples.append(patch.guarded(name, unseen(sample)))

    def before_backward(self, recorder: Recorder, loss: Any) -> None:
        """Count, and nearly always nothing else."""
        self.backwards += 1
        if self.backwards < self.next and recorder.since < self.next_ns:
            return
        if self.backwards >= self.next:
            self.next = 2 * self.next
        self.next_ns = recorder.since + PULSE_NS
        for sample in self.samples:
            sample(recorder, loss)

    def _begin_looks(self, call: BackwardCall) -> None:
        """Tell all who look that a backward begins."""
        self.call = call
        for look in self.looks[:]:
            look.before_backward(call.loss)

    def _end_looks(self, result: Any) -> None:
        """Tell them that it has ended."""
        if self.call is not None:
            self.call.result = result
        for look in self.looks[:]:
            look.after_backward()
        self.call = None
