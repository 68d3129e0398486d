"""What this process is: its run directory, its rank, and the recorder of the thread that trains.

Files are made at the first loader, module or backward call, so that launchers and helpers leave none.
"""

from __future__ import annotations

import atexit
import os
import sys
from _thread import get_ident
from typing import Any, Callable, Dict, List, Optional, Tuple

from ..wire import names, rank_identity
from ..wire.events import Event
from ..wire.events.process import CostEvent, EndEvent
from ..wire.files import EventLog, MappedRows
from ..wire.rows import HEADER_BYTES
from ..wire.step_rows import END, STEPS
from . import patch, stack_sampler
from .recorder import Recorder, clock
from .wrapping import Args, Kwargs

TAG_VARIABLE = "PERFDOCTOR_TAG"  # tells spawned loader workers whose they are
PULSE_NS = 1_000_000_000  # how often running totals are written, until a run is long
CALIBRATION_CALLS = 7
OTHER_WORK_BYTES = 1 << 18  # more than a core's first cache holds, and much of its second
EVENTS_MAX = 5_000  # of each kind, per process: a script that builds a loader per step must not fill the disk


class _Nowhere:
    """Rows that are thrown away."""

    def __init__(self) -> None:
        self.map = bytearray(HEADER_BYTES + STEPS.packer.size)

    def place(self) -> int:
        return 0


class Session:
    """The probe's state in one process."""

    def __init__(self, run_dir: str, options: Dict[str, Any]) -> None:
        self.run_dir = run_dir
        self.options = options
        self.born_ns = _started_ns()
        self.pid = os.getpid()
        self.recorder: Optional[Recorder] = None
        self.tag: Optional[str] = None
        self.rank = 0
        self.slowed = False  # this process is being looked at closely: what it takes now is not timed
        self._lines: Optional[EventLog] = None
        self._waiting: List[Event] = []
        self._written: Dict[str, int] = {}  # events, by kind
        self._shared: Dict[str, EventLog] = {}  # by path
        self.on_end: List[Callable[[], None]] = []
        self.on_off: Callable[[], None] = lambda: None  # the watch was ended before the script
        os.register_at_fork(after_in_child=patch.guarded("fork", self._forked))
        self._permit()

    def _forked(self) -> None:
        """A child shares no file with its parent: it starts anew, if it trains at all."""
        self.born_ns = _started_ns()
        self.pid = os.getpid()
        self.recorder = None
        self._lines = None
        self._waiting = []
        self._permit()

    def _permit(self) -> None:
        watcher = self.options.get("watcher_pid")
        if isinstance(watcher, int):
            stack_sampler.permit(watcher)

    def in_worker(self) -> bool:
        """Whether this process is a worker of a DataLoader."""
        data = sys.modules.get("torch.utils.data._utils.worker")
        return data is not None and getattr(data, "_worker_info", None) is not None

    def recording(self) -> Optional[Recorder]:
        """The recorder if the calling thread is the one that trains and the watch is on, else None."""
        recorder = self.recorder
        if recorder is None:
            recorder = self._open()
        if recorder.off or recorder.owner != get_ident():
            return None
        return recorder

    def _open(self) -> Recorder:
        recorder = self.recorder = Recorder(_Nowhere())
        recorder.end()
        if self.in_worker() or not os.path.isdir(self.run_dir):
            return recorder
        self.rank = _rank()
        rows, self.tag = self._rows(self.rank)
        os.environ[TAG_VARIABLE] = self.tag
        self._lines = EventLog(self.path(names.events_file))
        waiting, self._waiting = self._waiting, []
        for event in waiting:
            self.write(event)
        self.write(CostEvent(**_calibrate()))
        recorder.rows = rows
        recorder.on_samples_asked = patch.guarded("stack sampler", self._sample)
        recorder.on_off = self.on_off
        recorder.max_marks = self.options.get("max_steps")
        recorder.off = False
        recorder.rest()
        recorder.since = recorder.begin = clock()
        atexit.register(patch.guarded("end", self._end))
        return recorder

    def _rows(self, rank: int) -> Tuple[MappedRows, str]:
        """The rows of this rank; a second process of the same rank gets its own, by process id."""
        tag = f"rank{rank}"
        try:
            return MappedRows(os.path.join(self.run_dir, names.rows_file("steps", tag)), STEPS, rank), tag
        except FileExistsError:
            tag = f"rank{rank}.{os.getpid()}"
            return MappedRows(os.path.join(self.run_dir, names.rows_file("steps", tag)), STEPS, rank), tag

    def _sample(self) -> None:
        """Sample the stacks from within, since nobody may from outside."""
        if self.recorder is not None:
            stack_sampler.begin(self.path(names.stacks_file), self.recorder.owner)

    def path(self, name_of: Callable[[str], str]) -> str:
        """The path of one of this process's files in the run directory: `name_of(tag)` names it."""
        return os.path.join(self.run_dir, name_of(str(self.tag)))

    def rows_path(self, kind: str) -> str:
        """The path of this process's rows of one kind."""
        return os.path.join(self.run_dir, names.rows_file(kind, str(self.tag)))

    def write(self, event: Event) -> None:
        """Write one JSON line, or keep it until this process turns out to train."""
        if self._lines is not None:
            written = self._written[event.event] = self._written.get(event.event, 0) + 1
            if written <= EVENTS_MAX:
                self._lines.add(event)
        elif len(self._waiting) < EVENTS_MAX:
            self._waiting.append(event)

    def append(self, event: Event, file: Optional[str] = None) -> None:
        """Write one JSON line to a file that several processes share; by default to this rank's events."""
        path = self.path(names.events_file) if file is None else os.path.join(self.run_dir, file)
        log = self._shared.get(path)
        if log is None:
            log = self._shared[path] = EventLog(path)
        log.add(event)

    def _end(self) -> None:
        recorder = self.recorder
        if recorder is None or os.getpid() != self.pid or recorder.off:
            return
        recorder.unwind(0)
        recorder.touch()
        recorder.mark(END)
        recorder.end()
        for call in self.on_end:
            call()
        self.write(EndEvent(broken=patch.broken()))


def _started_ns() -> int:
    """When this interpreter started, as its first module of ours noted it."""
    return int(getattr(sys.modules.get("_perfdoctor"), "started_ns", clock()))


def _rank() -> int:
    distributed = sys.modules.get("torch.distributed")
    if distributed is not None and distributed.is_available() and distributed.is_initialized():
        return int(distributed.get_rank())
    return int(rank_identity.identity().get("rank", 0))


def _calibrate() -> Dict[str, float]:
    """Nanoseconds that our own pieces cost here: a phase entered and left, a row, a nested call.

    Each call comes after other work: called in a row they would cost a third of what a training step pays.
    """

    def nothing() -> None:
        pass

    scratch = Recorder(_Nowhere())

    def before(args: Args, kwargs: Kwargs) -> bool:
        scratch.enter(0)
        return True

    def after(token: Any, args: Args, result: Any) -> None:
        scratch.leave()

    def aside(args: Args, kwargs: Kwargs) -> None:
        return None

    bare = _per_call(nothing)
    switch = _per_call(patch.around(nothing, before, after, "calibration"))
    nested = _per_call(patch.around(nothing, aside, after, "calibration"))
    row = _per_call(lambda: scratch.mark(END))
    return {"switch_ns": switch - bare, "call_ns": nested - bare, "row_ns": row - bare}


def _per_call(function: Callable[[], Any]) -> float:
    taken, there, here = [], bytes(OTHER_WORK_BYTES), bytearray(OTHER_WORK_BYTES)
    for _ in range(CALIBRATION_CALLS):
        here[:] = there
        begin = clock()
        function()
        taken.append(clock() - begin)
    return float(sorted(taken)[CALIBRATION_CALLS // 2])
