"""Which thread trains, and what is done in it about once a second."""

from __future__ import annotations

from _thread import get_ident
from typing import Optional

from ...wire.step_rows import OTHER
from ..moments import Moments
from ..recorder import Recorder, clock
from ..session import PULSE_NS, Session


class TrainingThread:
    """The thread that trains: the first one with a forward with gradients, a backward or an update."""

    def __init__(self, session: Session, moments: Moments) -> None:
        self.session = session
        self.moments = moments
        self.known = False
        self.next_pulse_ns = clock() + PULSE_NS

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
        self.next_pulse_ns = clock() + PULSE_NS
        for write in self.moments.second:
            write()
