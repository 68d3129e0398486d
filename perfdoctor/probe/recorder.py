"""The recorder: one thread's time, split into exclusive phases and closed into rows at each marker.

Everything here runs in the user's training loop, several times a step: it stays at a few microseconds.
A phase is entered and left in a strict nesting; what runs inside another is charged where it runs.

Nearly all phases lie inside no other. For those the wrappers of a step (`steps/`, `loader/`) do in place, one
function for both borders, what `enter`, `leave`, `leave_to` and `decide` do here: calling them was most of
what watching cost. Such a phase is not kept on the stack, since it is known what is around it: `free` tells
that it may begin, and `BEFORE_BACKWARD[current]` and its like what the time before it was. What is done in
place is arithmetic on our own numbers, which cannot fail. The rest, and any phase inside another, is left to
guarded functions.
"""

from __future__ import annotations

import math
import time
from _thread import get_ident
from typing import Any, Callable, List, Optional, Tuple

from ..wire.rows import CONTROL_BYTE, SAMPLE_BYTE
from ..wire.step_rows import (
    DISTURBED,
    END,
    FORWARD,
    OPEN,
    OPTIMIZER,
    OTHER,
    ROLLED_UP,
    STEPS,
    UPDATE,
    VALIDATION,
)  # fmt: skip

clock = time.perf_counter_ns  # bound now: scripts mock `time`
process_clock = time.process_time_ns
wall_clock = time.time_ns

# Undecided time, behind the phases: what follows tells what it was.
AFTER_FORWARD = 9  # the loss is computed here if a backward follows, other work if not
AFTER_BACKWARD = 10  # gradients are clipped here if an optimizer step follows, other work if not
EVAL_FORWARD = 11  # a frozen part of the step if a backward follows, validation if not
SLOTS = 12

# What the time before a border was, by the phase that it was counted to: None where no phase begins in place.
# Before a call or a batch it was `OTHER`, which no row tells: what is asked is only whether one may begin.
_ELSE: Tuple[Optional[int], ...] = (None,) * OTHER
FREE = (*(False,) * OTHER, True, True, True, False)
BEFORE_BACKWARD = (*_ELSE, OTHER, FORWARD, FORWARD, None)
BEFORE_UPDATE = (*_ELSE, OTHER, OTHER, OPTIMIZER, None)

OUTERMOST = -1  # the depth of a phase that lies inside no other, and so is not kept on the stack

RAW_ROWS = 100_000  # 13 MB; past it, each further ROWS_PER_MERGE rows cover twice as many markers
ROWS_PER_MERGE = 10_000
# Rows between two readings of the process's CPU clock, a system call; the first rows have one each.
CPU_EVERY = 16
ASK_NS = 20_000_000  # between two looks at what the outside asks for: in each short step they would be felt

pack_row = STEPS.packer.pack_into
# Each number that is packed is felt: a usual row leaves out what is zero.
pack_usual = STEPS.packer_of(
    "end_ns", "begin_ns", "marker", "optimizer", "marks", "backwards", "batches", "calls", "switches",
    "samples", "loss", "data_wait", "forward", "backward", "optimizer_ns",
).pack_into  # fmt: skip


class Recorder:
    """Phases and rows of the thread that trains.

    `rows` is where rows go: anything with a `map`, and `place()`, the offset in it of the next one.
    """

    __slots__ = (
        "ask_ns", "backwards", "base", "batches", "begin", "calls", "cpu", "cpu_due", "current",
        "first_optimizer_marks", "flags", "free", "held", "level", "loss", "marks", "max_marks", "merge",
        "off", "on_enter", "on_off", "on_samples_asked", "owner", "rows", "samples", "since", "spent",
        "stack", "switches", "undecided", "updates", "written",
    )  # fmt: skip

    def __init__(self, rows: Any, owner: Optional[int] = None) -> None:
        self.rows = rows
        self.owner = get_ident() if owner is None else owner
        self.off = self.held = False  # set by `end` and `hold`
        self.free = True  # see `rest`
        self.level = OPEN  # the strongest marker seen
        self.current = self.base = OTHER  # base: what undecided time falls back to
        self.undecided = False  # some time counted so far waits for what follows to tell what it was
        self.stack: List[int] = []
        self.spent = [0] * SLOTS
        self.since = self.begin = clock()
        self.ask_ns = 0  # when to look again whether the outside asks for something
        self.cpu = process_clock()
        self.written = 0
        self.updates = 0
        self.merge = 1  # markers that a row covers
        self.flags = 0
        self.cpu_due = False  # the next row reads the process's CPU clock, whatever its number
        self.marks = self.backwards = self.batches = self.calls = self.switches = self.samples = 0
        self.loss = math.nan
        self.on_samples_asked: Optional[Callable[[], None]] = None
        self.on_enter: Optional[Callable[[], None]] = None  # asked before each phase
        self.on_off: Callable[[], None] = lambda: None  # the watch was ended from outside
        self.max_marks: Optional[int] = None  # end of the watch, in markers of the first optimizer
        self.first_optimizer_marks = 0

    def end(self) -> None:
        """The watch is over."""
        self.off = True
        self.free = False

    def hold(self, held: bool) -> None:
        """While a window is open the watch does not end, and each phase is told by the methods."""
        self.held = held
        self.rest()

    def rest(self) -> None:
        """See whether the next phase may begin in place, as far as that is not for `current` to tell."""
        self.free = not (self.stack or self.off or self.held) and self.base == OTHER

    def enter(self, phase: int) -> None:
        """From now on, time belongs to `phase`, until `leave`."""
        if self.on_enter is not None:
            self.on_enter()
        self.touch()
        self.stack.append(self.current)
        self.free = False
        self.current = phase
        self.switches += 1

    def leave(self) -> None:
        """Back to the phase around this one."""
        self.touch()
        self.current = self.stack.pop()
        self.rest()

    def leave_to(self, phase: int) -> None:
        """Leave; what follows is `phase`, of which only what comes next tells what it was.

        Within another phase than what undecided time falls back to, what follows belongs to that one.
        """
        self.leave()
        if self.current in (self.base, AFTER_FORWARD, AFTER_BACKWARD):
            self.current = phase

    def touch(self) -> None:
        """Charge the time up to now, before a mark that does not follow the end of a phase."""
        now = clock()
        current = self.current
        self.spent[current] += now - self.since
        self.since = now
        if current >= AFTER_FORWARD:
            self.undecided = True

    def decide(self, after_forward: int, after_backward: int, eval_forward: int) -> None:
        """Say what the undecided time was; called once the phase that tells has been entered or left."""
        self.set_aside(after_forward, after_backward)
        self.spent[eval_forward] += self.spent[EVAL_FORWARD]
        self.spent[EVAL_FORWARD] = 0
        self.undecided = False

    def set_aside(self, after_forward: int, after_backward: int) -> None:
        """Say what followed the last forward or backward, and leave passes in eval mode undecided."""
        spent = self.spent
        spent[after_forward] += spent[AFTER_FORWARD]
        spent[after_backward] += spent[AFTER_BACKWARD]
        spent[AFTER_FORWARD] = spent[AFTER_BACKWARD] = 0
        if self.current in (AFTER_FORWARD, AFTER_BACKWARD):
            self.current = self.base
        elif self.stack and self.stack[-1] in (AFTER_FORWARD, AFTER_BACKWARD):
            self.stack[-1] = self.base

    def move(self, phase: int, to: int, ns: int) -> None:
        """Of the time that the open row has in `phase`, `ns` belong to another, as it turns out."""
        ns = min(ns, self.spent[phase])
        self.spent[phase] -= ns
        self.spent[to] += ns

    def unwind(self, depth: int) -> None:
        """Drop phases that an exception left open."""
        while len(self.stack) > depth:
            self.leave()

    def take_out(self, depth: int) -> None:
        """Drop the phase around which lie `depth` others, an optimizer's: an exception ended it.

        What began since goes on. What is left of the phase is itself, or what follows a forward or backward.
        """
        level, rest = depth + 1, (OPTIMIZER, AFTER_FORWARD, AFTER_BACKWARD)
        if level == len(self.stack) and self.current in rest:
            self.touch()
            self.current = OTHER if depth == OUTERMOST else self.stack.pop()
            self.rest()
        elif level < len(self.stack) and self.stack[level] in rest:
            if depth == OUTERMOST:
                self.stack[level] = OTHER
            else:
                del self.stack[level]

    def mark(self, marker: int, optimizer: int = 0) -> None:
        """Close a row where the last phase ended, if `marker` is at least as strong as the strongest seen."""
        if marker < self.level and marker != END:
            if marker != OPEN or self.level == UPDATE:
                return
        elif marker != END:
            self.level = marker
            self.updates += marker == UPDATE
        self.marks += 1
        if optimizer == 1:
            self.first_optimizer_marks += 1
        if self.marks < self.merge and marker != END:
            return
        self.decide(OTHER, OTHER, VALIDATION)
        self.close(marker, optimizer)

    def set_apart(self) -> None:
        """Close a row over the time since the last border: ours, in no phase of the script's, and no step."""
        self.since = clock()
        self.flags |= DISTURBED
        self.cpu_due = True
        self.close(OPEN, 0)
        self.flags |= DISTURBED
        self.cpu_due = True

    def amend_loss(self, row: int, value: float) -> None:
        """Add a loss that came late to its row, which may still be open."""
        if row < self.written:
            self.rows.amend_loss(row, value)
        else:
            self.loss = value if math.isnan(self.loss) else self.loss + value

    def close(self, marker: int, optimizer: int) -> None:
        """Write the row that is open, up to where the last phase ended. `mark` says when."""
        now = self.since
        spent = self.spent
        cpu_ns = 0
        if self.written < CPU_EVERY or self.written % CPU_EVERY == 0 or marker == END or self.cpu_due:
            self.cpu_due = False
            cpu = process_clock()
            cpu_ns, self.cpu = cpu - self.cpu, cpu
        flags = self.flags | ROLLED_UP if self.merge > 1 else self.flags
        rows = self.rows
        try:
            place = rows.place()  # first: it may replace the map
        except OSError:  # the disk is full: rows after a gap would tell of other steps than they name
            self.end()
            raise
        if flags or cpu_ns or spent[1] or spent[4] or spent[6] or spent[7]:
            pack_row(
                rows.map, place, now, self.begin, marker, flags, optimizer, self.marks, self.backwards,
                self.batches, self.calls, self.switches, self.samples, self.loss, cpu_ns,
                spent[0], spent[1], spent[2], spent[3], spent[4], spent[5], spent[6], spent[7],
            )  # fmt: skip
        else:
            pack_usual(
                rows.map, place, now, self.begin, marker, optimizer, self.marks, self.backwards,
                self.batches, self.calls, self.switches, self.samples, self.loss,
                spent[0], spent[2], spent[3], spent[5],
            )  # fmt: skip
        self.begin = now
        self.spent = [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]  # SLOTS of them: written out it takes half as long
        self.flags = self.marks = self.backwards = self.batches = self.calls = 0
        self.switches = self.samples = 0
        self.loss = math.nan
        self.written += 1
        if self.written >= RAW_ROWS and (self.written - RAW_ROWS) % ROWS_PER_MERGE == 0:
            self.merge *= 2
        if now >= self.ask_ns:
            self.ask_ns = now + ASK_NS
            self._ask(rows.map)

    def _ask(self, asked: Any) -> None:
        """Do what the outside wrote into the header of the file."""
        if asked[CONTROL_BYTE] == 1 and not self.held:
            self.end()
            self.on_off()
        if asked[SAMPLE_BYTE] == 1 and self.on_samples_asked is not None:
            asked[SAMPLE_BYTE] = 2
            self.on_samples_asked()
