"""What a batch costs the process that makes it: a worker's, or the one that trains.

The fetcher is watched, not the loop around it; the fetcher of a loader without workers lives in the process
that trains and is watched just the same, in a few of its turns.
"""

from __future__ import annotations

import os
import time
from typing import Any, Dict, Optional, Tuple

from ...wire.batch_rows import BATCHES, TRAINING_PROCESS
from ...wire.events.loaders import WorkerEvent
from ...wire.files import AppendedRows, MappedRows
from ..containers import is_a
from ..fetch_turns import FetchTurns
from ..looks.op_recording import unseen
from ..recorder import clock
from ..session import TAG_VARIABLE, Session
from ..wrapping import Args, Kwargs
from .batch_content import bytes_of, samples_of

thread_clock = time.thread_time_ns

RAW_ROWS = 50_000  # per process; past it, each further ROWS_PER_MERGE rows cover twice as many batches
ROWS_PER_MERGE = 5_000
CHEAP_NS = 2_000_000  # batches that cost less are looked at once in CHEAP_STRIDE, after the first EACH_ROWS
CHEAP_STRIDE = 8
CHEAPEST_NS = 250_000  # of batches that cost even less one in so many is looked at: looking costs some 30 us
CHEAPEST_STRIDE = 64
EACH_ROWS = 64
TOTALS = 8  # batches, samples, the four costs, bytes, bytes of files
LOOK_BYTES = 64  # read of the file below at each end of a batch
READ_CALLS = "/proc/thread-self/io"  # its first line counts what read calls returned, the page cache included


class Making:
    """What a batch costs the process that makes it."""

    def __init__(self, session: Session, tensor: type, fetches: FetchTurns) -> None:
        self.session = session
        self.tensor = tensor
        self.fetches = fetches
        self.rows: Any = None
        self.pid = 0  # the process that `rows` belongs to
        self.worker = TRAINING_PROCESS
        self.stride = 1  # cheap batches are looked at once in so many
        self.last = 0  # the count of the batch that was looked at last
        self.untimed = 0  # batches that the next row stands for as well
        self.measuring = False
        self.collate_ns = self.collate_cpu_ns = 0
        self.asking_ns = 0  # of the batch that is looked at: in our own question below
        self.collate_begin = (0, 0)
        self.row_totals = [0] * TOTALS  # of a row that covers several batches
        self.written = 0
        self.merge = 1
        self.loaders: Dict[int, int] = {}  # id of a fetcher in this process -> its loader
        self.after_fetch = unseen(self._after_fetch)

    def fetcher_made(self, fetcher: Any, loader: int) -> None:
        """Time the collate function of a new fetcher apart from its reading."""
        self.loaders[id(fetcher)] = loader
        self.fetches.made(fetcher)
        self.fetches.add_collate(fetcher, self.before_collate, self.after_collate, "collate")

    def next(self) -> int:
        """The count of the batch that has its turn next."""
        return self.last + self.stride

    def before_collate(self, args: Args, kwargs: Kwargs) -> Optional[bool]:
        """Start the clocks, that of the thread first: to ask it, the kernel settles what the thread used.

        On a busy machine the thread may lose its core there, for many milliseconds.
        """
        if not self.measuring:
            return None
        asked, cpu = clock(), thread_clock()
        begin = clock()
        self.asking_ns = begin - asked
        self.collate_begin = (begin, cpu)
        return True

    def after_collate(self, token: bool, args: Args, result: Any) -> None:
        """Stop the clocks."""
        begin, cpu = self.collate_begin
        asked = clock()
        self.collate_ns = asked - begin
        self.collate_cpu_ns = thread_clock() - cpu
        self.asking_ns += clock() - asked

    def before_fetch(self, args: Args, kwargs: Kwargs) -> Optional[Tuple[int, int, int]]:
        """Start the clocks, in a worker or where the training process fetches for itself."""
        if self.pid != self.session.pid:
            self._begin_process()
        count = self.fetches.count
        if self.rows is None or count < self.next():
            return None
        if self.session.slowed:
            self.untimed += 1
            return None
        self.last = count
        self.measuring = True
        self.collate_ns = self.collate_cpu_ns = self.asking_ns = 0
        file_bytes = self._file_bytes()
        cpu = thread_clock()  # first, as in `before_collate`
        return clock(), cpu, file_bytes

    def _after_fetch(self, token: Tuple[int, int, int], args: Args, result: Any) -> None:
        """Write the batch's row; it stands for those that were not looked at, too."""
        self.measuring = False
        if result is None:
            return  # the end of an iterable dataset, or an exception
        begin, cpu, file_bytes = token
        end = clock()
        read_cpu = thread_clock() - cpu - self.collate_cpu_ns
        read = end - begin - self.collate_ns - self.asking_ns
        from_files = max(0, self._file_bytes() - file_bytes - LOOK_BYTES)  # the look before counts itself
        sizes = bytes_of(result, self.tensor), from_files
        costs = (read, read_cpu, self.collate_ns, self.collate_cpu_ns, *sizes)
        totals, stride = self.row_totals, self.stride + self.untimed
        self.untimed = 0
        totals[0] += stride
        asked = args[1] if len(args) > 1 else None  # indices of the samples, or of the only one
        count = len(asked) if is_a(asked, list) else 0
        totals[1] += stride * samples_of(result, self.tensor, count, exact=True)
        for place, cost in enumerate(costs, 2):
            totals[place] += stride * cost
        if self.written >= EACH_ROWS:
            took = end - begin
            self.stride = 1 if took >= CHEAP_NS else CHEAP_STRIDE if took >= CHEAPEST_NS else CHEAPEST_STRIDE
        if totals[0] < self.merge:
            return
        self.rows.add(end, begin, self.pid, self.worker, self.loaders.get(id(args[0]), 0), *totals)
        self.row_totals = [0] * TOTALS
        self.written += 1
        if self.written >= RAW_ROWS and (self.written - RAW_ROWS) % ROWS_PER_MERGE == 0:
            self.merge *= 2

    def _file_bytes(self) -> int:
        """What read calls of this thread have returned until now; 0 where it is not known or not asked."""
        if self.stride > 1:  # a cheap batch: asking costs ten microseconds
            return 0
        try:
            file = os.open(READ_CALLS, os.O_RDONLY)
        except OSError:
            return 0
        try:
            return int(os.read(file, LOOK_BYTES).split(None, 2)[1])
        except (OSError, ValueError, IndexError):
            return 0
        finally:
            os.close(file)

    def _begin_process(self) -> None:
        self.pid = os.getpid()
        self.rows = None
        self.written, self.merge, self.stride, self.untimed, self.row_totals = 0, 1, 1, 0, [0] * TOTALS
        self.last = self.fetches.count - 1
        session = self.session
        if session.in_worker():
            from torch.utils.data import get_worker_info

            session.tag = session.tag or os.environ.get(TAG_VARIABLE)
            self.rows = AppendedRows(session.rows_path("workers"), BATCHES)
            self.worker = int(get_worker_info().id)
            session.append(WorkerEvent(worker=self.worker, born_ns=session.born_ns, first_fetch_ns=clock()))
        elif session.recorder is not None and session.tag is not None and not session.recorder.off:
            self.rows = MappedRows(session.rows_path("loader"), BATCHES, 0)
            self.worker = TRAINING_PROCESS
