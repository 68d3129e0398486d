"""The recorder: one thread's time, split into exclusive phases and closed into rows at each marker.

Everything here runs in the user's training loop, several times a step: it stays at a few microseconds.
A phase is entered and left in a strict nesting; what runs inside another is charged where it runs.
"""

from __future__ import annotations

import math
import time
from _thread import get_ident
from typing import Any, Callable, List, Optional

from .writer import CONTROL_BYTE, SAMPLE_BYTE, Layout

clock = time.perf_counter_ns  # bound now: scripts mock `time`
process_clock = time.process_time_ns

DATA_WAIT, HOST_TO_DEVICE, FORWARD, BACKWARD, GRAD_SYNC, OPTIMIZER, VALIDATION, CHECKPOINT = range(8)
OTHER = 8
# Undecided time: what follows tells what it was.
AFTER_FORWARD = 9  # the loss is computed here if a backward follows, other work if not
AFTER_BACKWARD = 10  # gradients are clipped here if an optimizer step follows, other work if not
EVAL_FORWARD = 11  # a frozen part of the step if a backward follows, validation if not
SLOTS = 12

OPEN, CALL, BATCH, BACKWARD_DONE, UPDATE, END = range(6)

SKIPPED, WINDOW, ROLLED_UP, FRESH, UPDATED_IN_BACKWARD = 1, 2, 4, 8, 16

RAW_ROWS = 100_000  # 13 MB; past it, each further ROWS_PER_MERGE rows cover twice as many markers
ROWS_PER_MERGE = 10_000

STEPS = Layout(
    "steps",
    (
        ("end_ns", "i8"),
        ("begin_ns", "i8"),
        ("marker", "u1"),
        ("flags", "u1"),
        ("optimizer", "u2"),
        ("marks", "u4"),
        ("backwards", "u4"),
        ("batches", "u4"),
        ("calls", "u4"),
        ("switches", "u4"),
        ("samples", "i8"),
        ("loss", "f8"),
        ("process_cpu_ns", "i8"),
        ("data_wait", "i8"),
        ("host_to_device", "i8"),
        ("forward", "i8"),
        ("backward", "i8"),
        ("grad_sync", "i8"),
        ("optimizer_ns", "i8"),
        ("validation", "i8"),
        ("checkpoint", "i8"),
    ),
)


class Recorder:
    """Phases and rows of the thread that trains.

    `rows` is where rows go: anything with `add(*values)` and, if mapped, `map`.
    """

    def __init__(self, rows: Any, owner: Optional[int] = None) -> None:
        self.rows = rows
        self.owner = get_ident() if owner is None else owner
        self.off = False
        self.level = OPEN  # the strongest marker seen
        self.current = self.base = OTHER  # base: what undecided time falls back to
        self.stack: List[int] = []
        self.spent = [0] * SLOTS
        self.since = self.begin = clock()
        self.cpu = process_clock()
        self.written = 0
        self.merge = 1  # markers that a row covers
        self.flags = 0
        self.marks = self.backwards = self.batches = self.calls = self.switches = self.samples = 0
        self.loss = math.nan
        self.on_samples_asked: Optional[Callable[[], None]] = None
        self.max_marks: Optional[int] = None  # end of the watch, in markers of the first optimizer
        self.first_optimizer_marks = 0

    def enter(self, phase: int) -> None:
        """From now on, time belongs to `phase`, until `leave`."""
        now = clock()
        self.spent[self.current] += now - self.since
        self.since = now
        self.stack.append(self.current)
        self.current = phase
        self.switches += 1

    def leave(self) -> None:
        """Back to the phase around this one."""
        now = clock()
        self.spent[self.current] += now - self.since
        self.since = now
        self.current = self.stack.pop()

    def become(self, phase: int) -> None:
        """The innermost open phase turns into `phase` from now on."""
        now = clock()
        self.spent[self.current] += now - self.since
        self.since = now
        self.current = phase

    def settle(self, after_forward: int, after_backward: int, eval_forward: int) -> None:
        """Decide what the undecided time was."""
        now = clock()
        spent = self.spent
        spent[self.current] += now - self.since
        self.since = now
        if self.current >= AFTER_FORWARD:
            self.current = self.base
        spent[after_forward] += spent[AFTER_FORWARD]
        spent[after_backward] += spent[AFTER_BACKWARD]
        spent[eval_forward] += spent[EVAL_FORWARD]
        spent[AFTER_FORWARD] = spent[AFTER_BACKWARD] = spent[EVAL_FORWARD] = 0

    def set_aside(self) -> None:
        """What followed the last forward or backward was other work, since another forward comes first."""
        now = clock()
        spent = self.spent
        spent[self.current] += now - self.since
        self.since = now
        self.current = self.base
        spent[self.base] += spent[AFTER_FORWARD] + spent[AFTER_BACKWARD]
        spent[AFTER_FORWARD] = spent[AFTER_BACKWARD] = 0

    def unwind(self, depth: int) -> None:
        """Drop phases that an exception left open."""
        while len(self.stack) > depth:
            self.leave()

    def mark(self, marker: int, optimizer: int = 0) -> None:
        """Close a row, if `marker` is at least as strong as the strongest seen."""
        if marker < self.level and marker != END:
            if marker != OPEN or self.level == UPDATE:
                return
        elif marker != END:
            self.level = marker
        self.marks += 1
        if optimizer == 1:
            self.first_optimizer_marks += 1
        if self.marks < self.merge and marker != END:
            return
        self.settle(OTHER, OTHER, VALIDATION)
        self._close(marker, optimizer)

    def _close(self, marker: int, optimizer: int) -> None:
        now = self.since  # settle() has just read the clock
        cpu = process_clock()
        spent = self.spent
        flags = self.flags | (ROLLED_UP if self.merge > 1 else 0)
        self.rows.add(
            now, self.begin, marker, flags, optimizer, self.marks, self.backwards, self.batches, self.calls,
            self.switches, self.samples, self.loss, cpu - self.cpu, *spent[:OTHER],
        )  # fmt: skip
        self.begin = now
        self.cpu = cpu
        self.spent = [0] * SLOTS
        self.flags = self.marks = self.backwards = self.batches = self.calls = self.switches = (
            self.samples
        ) = 0
        self.loss = math.nan
        self.written += 1
        if self.written >= RAW_ROWS and (self.written - RAW_ROWS) % ROWS_PER_MERGE == 0:
            self.merge *= 2
        self._listen()

    def _listen(self) -> None:
        """What the outside asks for is written into the header of the mapped file."""
        asked = self.rows.map
        if asked[CONTROL_BYTE] == 1:
            self.off = True
        if asked[SAMPLE_BYTE] == 1 and self.on_samples_asked is not None:
            asked[SAMPLE_BYTE] = 2
            self.on_samples_asked()
