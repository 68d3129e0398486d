"""What a profiler window costs, and when a run is long enough to pay for it.

Numbers and a small shared file only: torch is not touched here.
"""

from __future__ import annotations

import math
import mmap
import os
from typing import Dict, List, NamedTuple, Optional

from ...wire import names
from ...wire.files import allocate

PLAIN, SHAPES, STACKS = range(3)
KINDS = (PLAIN, SHAPES, STACKS)
NAMES = ("plain", "shapes", "stacks")
COUNTED = (4, 3, 1)  # steps that a window of each kind records
WARM_UP = (1, 1, 0)  # steps before those: by the time of the stacks torch's profiler has run twice
FACTOR = (1.0, 2.0, 2.0)  # cost of a traced step beside a plain one, Python's calls apart

MARGIN = 1.5  # on what a window is expected to cost: on a busy machine it took up to 1.4 times that
EVENT_S = 6e-6  # stopping and exporting one event: 5.2 us measured at 2.5 GHz; with stacks a call is one
RECORD_S = 3e-7  # recording a call
RECORD_LEAST_S = 0.005  # in a shorter step what torch does at its first calls would pass for too many
COUNT_S = 4e-7  # counting one beforehand
EVENTS_PER_S = 400_000  # as fast as small operations follow each other: 950 events in 2.4 ms
EVENTS_PER_MODULE = 60  # forward, backward and optimizer of one layer; a plain loop over parameters included
# Of each call of torch's functions outside backward and update, with what both add to it: 7 (convolutions) to
# 25 (LSTM cells). Loops over samples or characters have many for few modules.
EVENTS_PER_CALL = 15
# Of each node of autograd's graph, with its forward, backward and update: 9 (LSTM cells) to 16 where tiny
# operations follow each other (bench/window_events.py). Of layers there are more: those are counted above.
EVENTS_PER_NODE = 15
EVENTS_BASE = 300  # of a step: loss, loader, zero_grad
EVENT_BYTES = (250, 390, 250)  # of exported JSON
EVENTS_MAX = 2_000_000  # of one window: its file would be hundreds of megabytes
FILE_MAX_BYTES = 256 << 20  # of one exported window

START_S = 0.002  # the profiler's first start on a CPU: 1.3 ms measured
CUDA_START_S = 0.3  # and where CUPTI has to be loaded: 0.02 to 0.31 s measured on an H200, once 0.66 s
NEVER_NS = 1 << 62

ATTEMPTS = 8  # windows that are tried, those included that made way for something
_PLAN_BYTES = 4096


class WindowPlan:
    """At which step windows open: an array of whole numbers that the ranks of one host have mapped.

    The first is the lowest rank seen so far, plus one; it alone decides. Then one per attempt: 0, or an
    Entry, packed. Reading it costs no system call, and no rank ever waits for another.
    """

    def __init__(self, run_dir: str) -> None:
        path = os.path.join(run_dir, names.windows_file(os.uname().nodename))
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            if os.fstat(descriptor).st_size < _PLAN_BYTES:
                allocate(descriptor, 0, _PLAN_BYTES)
            self.numbers = memoryview(mmap.mmap(descriptor, _PLAN_BYTES)).cast("q")
        finally:
            os.close(descriptor)

    def decides(self, rank: int) -> bool:
        """Whether this rank decides: no lower one has been here."""
        if not self.numbers[0] or rank + 1 < self.numbers[0]:
            self.numbers[0] = rank + 1
        return bool(self.numbers[0] == rank + 1)


class PlannedWindow(NamedTuple):
    """One planned window, as every rank reads it from the plan."""

    step: int  # the window opens when this many steps are over
    optimizer: int  # whose updates count the steps
    steps: int  # that the window counts, after one of warm-up
    kind: int

    def pack(self) -> int:
        """One whole number; never 0."""
        return self.step << 28 | (self.optimizer & 0xFFFF) << 12 | self.steps << 4 | self.kind

    @classmethod
    def unpack(cls, packed: int) -> PlannedWindow:
        """What `pack` made."""
        return cls(packed >> 28, packed >> 12 & 0xFFFF, packed >> 4 & 0xFF, packed & 0xF)


def closer(counts: Dict[int, int]) -> int:
    """The optimizer that ends a step: of those that were updated, the rarest; of equals, the last."""
    return min(counts, key=lambda number: (counts[number], -number))


def likely_events(
    step_s: float, modules: int, calls: int, function_calls: int = 0, nodes: float = 0.0
) -> float:
    """Events of one step, from its length in seconds, the modules of the model and the calls of it.

    `function_calls` are those of torch's functions, where a step was looked at call by call; `nodes` those of
    autograd's graph.
    """
    fastest = step_s * EVENTS_PER_S
    if not modules and not function_calls and not nodes:
        return fastest
    known = max(
        EVENTS_PER_MODULE * modules * max(1, calls), EVENTS_PER_CALL * function_calls, EVENTS_PER_NODE * nodes
    )
    return min(fastest, EVENTS_BASE + known)


def warm_up(kind: int, steps: int) -> int:
    """Steps of warm-up before a window of `steps` counted ones.

    A window of one has so many events that torch's first ones are lost in them, and is short to be paid for.
    """
    return 0 if steps == 1 else WARM_UP[kind]


def longest_s(step_s: float, calls: int) -> float:
    """How long a step with stacks may take: twice as long as usual, or until so many calls are recorded."""
    return step_s + max(step_s, calls * RECORD_S, RECORD_LEAST_S)


class Credit(NamedTuple):
    """What is lent to a run that would end before a window is paid for, as many a first try does.

    It counts for more seconds than it lasts: at its begin for `lent_s`, from `until_s` on for none.
    """

    lent_s: float
    until_s: float
    earliest_s: float  # nothing is bought on credit before the loop has settled

    def worth_s(self, elapsed_s: float) -> float:
        """For how many seconds a run that has trained for `elapsed_s` counts."""
        return max(elapsed_s, self.lent_s + (1 - self.lent_s / self.until_s) * elapsed_s)

    def reached_s(self, worth_s: float) -> float:
        """When a run counts for so many seconds: the inverse."""
        on_credit_s = (worth_s - self.lent_s) / (1 - self.lent_s / self.until_s)
        return min(worth_s, max(on_credit_s, self.earliest_s))


CREDIT = Credit(lent_s=5.0, until_s=20.0, earliest_s=1.0)  # 5 s count for 8.75
# Without a window nothing is known of what a device does, and CUPTI starts once: a second in all.
DEVICE_CREDIT = Credit(lent_s=100.0, until_s=300.0, earliest_s=3.0)


class Account:
    """What windows have cost so far, in seconds, and what the next one is likely to."""

    def __init__(self, share: float) -> None:
        self.share = share
        self.spent_s = 0.0
        self.start_s = START_S
        self.credit = CREDIT
        self.crowding = 1.0  # by what factor everything takes longer at present: see crowding.py
        self.event_s = EVENT_S  # on this machine, once a window has shown it
        self.step_costs_s: List[float] = []  # of each traced step, at the price of a plain one
        self.step_bytes: List[float] = []
        self.calls: Optional[int] = None  # of Python's and C's functions in a step, as counted last

    def begin_on_device(self) -> None:
        """The run computes on an accelerator: its windows cost more, and are worth more."""
        self.start_s = CUDA_START_S
        self.credit = DEVICE_CREDIT

    def add(
        self, kind: int, steps: int, start_s: float, rest_s: float, size: int, crowding: float = 1.0
    ) -> None:
        """Count a window of `steps` traced steps; `rest_s` is stop, export and slowdown, `size` in bytes.

        What its steps would have cost on free cores tells what the next window will.
        """
        self.spent_s += start_s + rest_s
        self.start_s = start_s
        rest_s /= crowding
        if steps:
            self.step_costs_s.append(rest_s / steps / FACTOR[kind])
            self.step_bytes.append(size / steps / FACTOR[kind])
        if steps and size:
            self.event_s = max(EVENT_S, rest_s / (size / EVENT_BYTES[kind]))

    def add_count(self, calls: Optional[int], limit: int) -> float:
        """A step's calls were counted, up to a limit; what that cost."""
        cost_s = COUNT_S * min(limit, limit if calls is None else calls)
        self.spent_s += cost_s
        if calls is not None:  # past the limit nobody knows how many: twice as many are tried next
            self.calls = calls if calls <= limit else max(calls, 2 * limit)
        return cost_s

    def steps(self, kind: int, events: float) -> int:
        """How many steps a window may count, at this many events a step; 0: not even one."""
        size = self.step_bytes[-1] if self.step_bytes else events * EVENT_BYTES[PLAIN]
        most = min(EVENTS_MAX / max(1.0, events), FILE_MAX_BYTES / max(1.0, size * FACTOR[kind]))
        fits = int(most)
        return max(min(COUNTED[kind], fits - WARM_UP[kind]), min(1, fits))  # one alone has no warm-up

    def payable_steps(self, kind: int, events: float, elapsed_s: float) -> int:
        """How many steps a window should count, `elapsed_s` after the first step; 0: not even one.

        As many as are paid for by now, or by the end of a first try; where not even one is, that one
        waits. Others that take the cores for a while put a window off, but do not shorten it.
        """
        until_s = max(elapsed_s, CREDIT.until_s)
        steps = self.steps(kind, events)
        while steps > 1 and self.credit.reached_s(self._needed_s(kind, steps, events, 1.0)) > until_s:
            steps -= 1
        return steps

    def due_ns(self, kind: int, steps: int, events: float, first_ns: int) -> int:
        """When the window fits into the share of the time since `first_ns`."""
        if self.share <= 0:
            return NEVER_NS
        needed_s = self._needed_s(kind, steps, events, self.crowding)
        return first_ns + int(self.credit.reached_s(needed_s) * 1e9)

    def payable_calls(self, now_ns: int, first_ns: int, events: float) -> int:
        """How many calls the step of a window with stacks may make, if it is opened now."""
        payable_s = self.share * self.credit.worth_s((now_ns - first_ns) / 1e9) - self.spent_s
        work_s = payable_s / MARGIN / self.crowding
        return max(0, int((work_s - self._cost_s(STACKS, 1, events)) / self.event_s))

    def _needed_s(self, kind: int, steps: int, events: float, crowding: float) -> float:
        """For how many seconds a run must count before the window is paid for."""
        cost_s = self._cost_s(kind, steps, events)
        if kind == STACKS:
            cost_s += self.event_s * (events if self.calls is None else self.calls)
        return (self.spent_s + MARGIN * crowding * cost_s) / self.share if self.share > 0 else math.inf

    def _cost_s(self, kind: int, steps: int, events: float) -> float:
        step_s = self.step_costs_s[-1] if self.step_costs_s else events * EVENT_S
        return self.start_s + (steps + warm_up(kind, steps)) * step_s * FACTOR[kind]
