"""Pauses of the garbage collector in the thread that trains.

Python calls back before and after each collection, in the thread that it interrupts. What is called back only
marks the times: see `collector_marks`. About once a second the marks are added up.
"""

from __future__ import annotations

import atexit
import os
from typing import Any, Dict, List, Optional, Tuple

from ...wire.events.training import GcPausesEvent
from .. import patch
from ..collector_marks import FULL, CollectorMarks, Pause
from ..moments import Moments
from ..observer import Watch, observer
from ..recorder import Recorder
from ..session import Session
from ..user_frames import users_line

LINES_MAX = 64  # lines told apart; a script has far fewer that collect


class GcPauses:
    """Running totals of one process, from its first row on."""

    def __init__(self, session: Session, moments: Moments) -> None:
        self.session = session
        self.marks = CollectorMarks()
        self.moments = moments
        self.first = patch.guarded("pauses", self._updated)
        moments.update = [*moments.update, self.first]
        self.count = 0  # pauses marked, in whichever thread
        self.totals: Dict[str, Any] = {
            "count": 0,
            "seconds": 0.0,
            "full": 0,
            "full_seconds": 0.0,
            "longest_s": 0.0,
        }
        self.written = 0
        self.lines: Dict[Tuple[str, int, str], float] = {}  # seconds of full collections below it

    def _updated(self, recorder: Recorder, optimizer: int) -> None:
        """The first update closes the first row, as a rule."""
        self.moments.update = [call for call in self.moments.update if call is not self.first]
        self._listen()

    def _listen(self) -> None:
        recorder = self.session.recorder
        if not (self.marks.callbacks or recorder is None or recorder.off) and recorder.written:
            self.marks.listen()
            self.count = 0

    def end(self) -> None:
        """Listen no more. A child that was forked listens anew if it trains."""
        self.marks.end()

    def pulse(self) -> None:
        """Write the totals, if they grew, with the line below which most of the time went."""
        self._listen()
        self._add(self.marks.read())
        if self.totals["count"] == self.written:
            return
        self.written = int(self.totals["count"])
        at: Optional[Dict[str, Any]] = None
        below_s = 0.0
        if self.lines:
            key, below_s = max(self.lines.items(), key=lambda entry: entry[1])
            at = dict(zip(("file", "line", "function"), key))
        self.session.write(GcPausesEvent(at=at, at_seconds=below_s, **self.totals))

    def _add(self, pauses: List[Pause]) -> None:
        """Add up those of the training thread; each stands for as many as it came with and were not kept."""
        if not pauses or self.session.recorder is None:
            return
        marked = pauses[-1].number + 1 - self.count
        self.count += marked
        weight = marked / len(pauses)
        mine = [pause for pause in pauses if pause.thread == self.session.recorder.owner]
        seconds = {pause.number: (pause.end_ns - pause.begin_ns) / 1e9 for pause in mine}
        totals = self.totals
        totals["count"] += round(weight * len(mine))
        totals["seconds"] += weight * sum(seconds.values())
        totals["longest_s"] = max(totals["longest_s"], *seconds.values(), 0.0)
        for pause in mine:
            if pause.generation >= FULL:
                totals["full"] += 1
                totals["full_seconds"] += seconds[pause.number]
                self._note(pause, seconds[pause.number])

    def _note(self, pause: Pause, seconds: float) -> None:
        line = users_line(pause.stacks[0]) if pause.stacks else None
        if line is None:
            return
        key = line["file"], line["line"], line["function"]
        if key in self.lines or len(self.lines) < LINES_MAX:
            self.lines[key] = self.lines.get(key, 0.0) + seconds


@observer
def gc_pauses(watch: Watch) -> None:
    """Listen to the collector until the interpreter ends."""
    pauses = GcPauses(watch.session, watch.moments)
    end = patch.guarded("pauses", pauses.end)
    os.register_at_fork(after_in_child=end)
    atexit.register(end)
    watch.each_second("pauses", pauses.pulse)
