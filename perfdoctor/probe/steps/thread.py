"""Which thread trains, and what is done in it about once a second, in long runs less often."""

from __future__ import annotations

from _thread import get_ident
from typing import Optional

from ...wire.step_rows import OTHER
from ..moments import Moments
from ..recorder import Recorder, clock
from ..session import PULSE_NS, Session

PULSES = 600  # up to each point of a run, at least: so often in a long one, too seldom to fill the disk


class TrainingThread:
    """The thread that trains: the first one with a forward with gradients, a backward or an update."""

    def __init__(self, session: Session, moments: Moments) -> None:
        self.session = session
        self.moments = moments
        self.known = False
        self.begin_ns = clock()
        self.next_pulse_ns = self.begin_ns + PULSE_NS

    def recorder(self) -> Optional[Recorder]:
        """The recorder, for the thread that trains; the first thread that does becomes it."""
        recorder = self.session.recording()
        if recorder is not None:
            self.known = True
            return recorder
        recorder = self.session.recorder
        if recorder is None or recorder.off or self.known:
            return None
        recorder.owner = get_ident()
        recorder.stack.clear()
        recorder.current = OTHER
        recorder.rest()
        recorder.touch()
        self.known = True
        return recorder

    def pulse(self) -> None:
        """Have the running totals written."""
        now = clock()
        self.next_pulse_ns = now + max(PULSE_NS, (now - self.begin_ns) // PULSES)
        for write in self.moments.second:
            write()
