"""Pauses of the garbage collector in the thread that trains.

Python calls back before and after each collection, in the thread that it interrupts.
"""

from __future__ import annotations

import atexit
import gc
from _thread import get_ident
from typing import Any, Dict, Optional

from ...wire.events.training import GcPausesEvent
from .. import patch
from ..observer import Watch, observer
from ..recorder import clock
from ..session import Session
from ..user_frames import user_line

FULL = 2  # the generation whose collection looks at every object there is
LINES_MAX = 64  # lines told apart; a script has far fewer that collect


class GcPauses:
    """Running totals of one process, from its first row on."""

    def __init__(self, session: Session) -> None:
        self.session = session
        self.begin = 0  # of the pause under way
        self.totals: Dict[str, Any] = {
            "count": 0,
            "seconds": 0.0,
            "full": 0,
            "full_seconds": 0.0,
            "longest_s": 0.0,
        }
        self.written = 0
        self.lines: Dict[Any, float] = {}  # (file, line, function) -> seconds of full collections below it

    def collecting(self, phase: str, info: Dict[str, int]) -> None:
        """The collector's callback."""
        recorder = self.session.recorder
        if recorder is None or recorder.off or not recorder.written or recorder.owner != get_ident():
            return
        if phase == "start":
            self.begin = clock()
        elif self.begin:
            seconds = (clock() - self.begin) / 1e9
            self.begin = 0
            totals = self.totals
            totals["count"] += 1
            totals["seconds"] += seconds
            totals["longest_s"] = max(totals["longest_s"], seconds)
            if info["generation"] >= FULL:
                totals["full"] += 1
                totals["full_seconds"] += seconds
                self._note(seconds)

    def _note(self, seconds: float) -> None:
        line = user_line()
        if line is None:
            return
        key = line["file"], line["line"], line["function"]
        if key in self.lines or len(self.lines) < LINES_MAX:
            self.lines[key] = self.lines.get(key, 0.0) + seconds

    def pulse(self) -> None:
        """Write the totals, if they grew, with the line below which most of the time went."""
        if self.totals["count"] == self.written:
            return
        self.written = int(self.totals["count"])
        at: Optional[Dict[str, Any]] = None
        below_s = 0.0
        if self.lines:
            key, below_s = max(self.lines.items(), key=lambda entry: entry[1])
            at = dict(zip(("file", "line", "function"), key))
        self.session.write(GcPausesEvent(at=at, at_seconds=below_s, **self.totals))


@observer
def gc_pauses(watch: Watch) -> None:
    """Listen to the collector until the interpreter ends."""
    pauses = GcPauses(watch.session)
    callback = patch.guarded("pauses", pauses.collecting)
    gc.callbacks.append(callback)
    atexit.register(patch.guarded("pauses", lambda: gc.callbacks.remove(callback)))
    watch.each_second("pauses", pauses.pulse)
