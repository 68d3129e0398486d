"""Which thread trains, and what is done in it about once a second, in long runs less often."""

from __future__ import annotations

from _thread import get_ident
from typing import Optional

from ...wire.step_rows import OPEN, OTHER, UPDATE
from ..moments import Moments
from ..recorder import FREE, Recorder, clock
from ..session import PULSE_NS, Session

PULSES = 600  # up to each point of a run, at least: so often in a long one, too seldom to fill the disk
RESTING_NS = 5_000_000_000  # in no phase: longer than what a script does between steps, such as logging


class TrainingThread:
    """The thread that trains: the first with a forward with gradients, or what shows more of it elsewhere.

    A backward outranks forwards, and an update both: a model may be called to warm up before it is trained
    in a thread, or be looked into beside that. What shows as much takes the place of a thread that rests.
    """

    def __init__(self, session: Session, moments: Moments) -> None:
        self.session = session
        self.moments = moments
        self.shown = OPEN  # the strongest marker of it; `OPEN` while no thread was seen to train
        self.begin_ns = clock()
        self.next_pulse_ns = self.begin_ns + PULSE_NS

    def recorder(self, shown: int) -> Optional[Recorder]:
        """The recorder, for the thread that trains, which shows that by what makes this marker."""
        recorder = self.session.recording()
        if recorder is None:
            recorder = self.session.recorder
            if recorder is None or recorder.off or not self._passes_on(recorder, shown):
                return None
            recorder.owner = get_ident()
            recorder.stack.clear()
            recorder.current = OTHER
            recorder.rest()
            recorder.touch()
            if self.shown:
                recorder.mark(OPEN)  # what went on elsewhere until now is no part of the first step
            self.shown = shown
        elif shown > self.shown:
            self.shown = shown
        return recorder

    def _passes_on(self, recorder: Recorder, shown: int) -> bool:
        """Whether the calling thread takes the place of the owner; never amid a phase or a window of its."""
        if self.shown == OPEN:
            return True
        if not (recorder.free and FREE[recorder.current]):
            return False
        rests = shown == UPDATE and clock() - recorder.since > RESTING_NS
        return shown > self.shown or rests

    def pulse(self) -> None:
        """Have the running totals written."""
        now = clock()
        self.next_pulse_ns = now + max(PULSE_NS, (now - self.begin_ns) // PULSES)
        for write in self.moments.second:
            write()
