"""Windows: when they open and close, and for what they make way.

A window opens and closes at a step border of the thread that trains. It ends at once for whatever the
script does with profilers, processes or its own end: a profiler that is open then ends the process with a
segmentation fault, or leaves a child that never ends. What a window disturbed is marked in the rows.
"""

from __future__ import annotations

import atexit
import os
import sys
from _thread import get_ident
from collections import defaultdict
from time import sleep
from typing import Any, Callable, Dict, Optional, Set

from ...wire import names
from ...wire.step_rows import DISTURBED
from .. import accelerators, patch
from ..recorder import Recorder, clock
from ..session import Session
from ..steps.updates import NO_TASK
from ..wrapping import nothing
from . import budget, silence
from .call_count import CallCount
from .child_end import end_without_joining
from .crowding import core_time, crowding
from .function_calls import FunctionCalls
from .graph_nodes import GraphNodes
from .time_limit import TimeLimit
from .users_profiler import UsersProfilers, install, stacks_unsafe
from .window import ProfilerWindow, is_recorded

WARM_UP = 10  # updates before the first look: compilation and lazy initialisation lie in them
LEAD = 4  # steps from the decision to the opening: every rank has read it by then
LOOK_AGAIN_NS = 1_000_000_000
TOO_LONG = 4.0  # times as long as its steps usually take: something else goes on inside, validation perhaps
TOO_LONG_NS = 200_000_000  # and at least this much
# How long a profiler in another thread waits for the training thread's next phase.
MAKE_WAY_NS = 5_000_000_000
POLL_S = 0.001
CAPTURES = "the script captures CUDA graphs, which a profiler can break"
TOOK_LONG = "its steps took much longer than usual"


class Windows:
    """The windows of one process."""

    def __init__(
        self, session: Session, torch: Any, users: UsersProfilers, modules: Callable[[], int]
    ) -> None:
        self.session = session
        self.torch = torch
        self.modules = modules  # how many the model has
        self.users = users
        self.users.make_way = self._make_way
        self.account = budget.Account(float(session.options.get("profiler_share", 0.01)))
        self.plan: Optional[budget.WindowPlan] = None
        self.attempt = 1  # which entry of the plan comes next
        self.wake_ns = 0  # when to look again whether a window fits
        self.counts: Dict[int, int] = defaultdict(int)  # updates of each optimizer, by number
        self.base: Dict[int, int] = {}  # what they were at the last look
        self.base_ns = self.first_ns = 0
        self.base_core = core_time()
        self.step_s = 0.0  # a usual step
        self.nodes = GraphNodes(torch)
        self.step_nodes = 0.0  # of autograd's graph, that such a step makes
        self.events = 0.0  # that such a step is likely to have
        self.tried: Set[int] = set()  # kinds that are recorded, or cannot be
        self.function_calls = FunctionCalls()
        self.count = CallCount()  # of the step before a window with stacks
        self.graphs = False  # a CUDA graph was captured
        self.used = self.minds_ends = False
        self.open: Optional[ProfilerWindow] = None
        self.optimizer = 0  # whose updates are the borders of the open window
        self.limit: Optional[TimeLimit] = None  # of the open window, if it records stacks
        self.asked_ns = 0  # since when a profiler in another thread waits for its end
        self.inherited: Optional[ProfilerWindow] = None
        # A look or an opening that fails turns windows off; ending one must still work then.
        self.look = patch.guarded("window", self._look)
        self.arrive = patch.guarded("window", self._arrive)
        self.inside = patch.guarded("window", self._inside)
        self.check = patch.guarded("end of a window", self._check)

    def border(self, recorder: Recorder, optimizer: int, graph_task: Callable[[], int]) -> None:
        """An update has closed a row: open, carry on, close, or nearly always nothing, as inside autograd."""
        self.counts[optimizer] += 1
        packed = 0 if self.plan is None else self.plan.numbers[self.attempt]
        if not (packed or self.open or recorder.since >= self.wake_ns) or graph_task() != NO_TASK:
            return
        if self.open is not None:
            self.inside(recorder, self.open, optimizer)
        elif packed:
            self.count.disturb(recorder)
            entry = budget.PlannedWindow.unpack(packed)
            if entry.optimizer == optimizer and (count := self.counts[optimizer]) >= entry.step - 1:
                self.arrive(recorder, entry, count)
        else:
            self.look(recorder)

    # ------------------------------------------------------------ deciding

    def _look(self, recorder: Recorder) -> None:
        """Plan the next window, if this rank decides and the time has come."""
        now = recorder.since
        if not self._may_ever(recorder):
            self.wake_ns = budget.NEVER_NS
            return
        if not self.first_ns:
            self.first_ns = now
            self._rest(now)
        recent = {n: c - self.base.get(n, 0) for n, c in self.counts.items() if c > self.base.get(n, 0)}
        if sum(recent.values()) < WARM_UP:
            return
        optimizer = budget.closer(recent)
        self.step_s = (now - self.base_ns) / recent[optimizer] / 1e9
        self.step_nodes = self.nodes.per_step(recent[optimizer])
        self.account.crowding = crowding(self.base_core, core_time())
        self._rest(now)
        self.wake_ns = now + LOOK_AGAIN_NS
        assert self.plan is not None
        if self.plan.decides(self._rank()) and not self.users.busy(self.torch):
            self._decide(recorder, optimizer)

    def _rest(self, now: int) -> None:
        """Steps are timed anew from here."""
        self.base, self.base_ns, self.base_core = dict(self.counts), now, core_time()
        self.nodes.rest()

    def _decide(self, recorder: Recorder, optimizer: int) -> None:
        """Put the next window into the plan, if the time so far pays for it."""
        kind = next((kind for kind in budget.KINDS if kind not in self.tried), None)
        if kind is None:
            self.wake_ns = budget.NEVER_NS
            return
        calls = recorder.rows.last("calls")
        own_s = self.step_s / self.account.crowding  # while it waits for a core nothing happens
        functions = self.function_calls.calls
        self.events = budget.likely_events(own_s, self.modules(), calls, functions, self.step_nodes)
        elapsed_s = (recorder.since - self.first_ns) / 1e9
        steps = self.account.payable_steps(kind, self.events, elapsed_s)
        if not steps or self._never(kind) is not None:
            self.tried.add(kind)
            self.wake_ns = 0
            return
        due_ns = self.account.due_ns(kind, steps, self.events, self.first_ns)
        if recorder.since < due_ns:
            self.wake_ns = min(due_ns, self.wake_ns)
            return
        assert self.plan is not None
        entry = budget.PlannedWindow(self.counts[optimizer] + LEAD, optimizer, steps, kind)
        self.plan.numbers[self.attempt] = entry.pack()

    def _may_ever(self, recorder: Recorder) -> bool:
        """Whether a window may open in this process at all."""
        if self.plan is None and self.attempt == 1 and self._is_eligible():
            self.plan = budget.WindowPlan(self.session.run_dir)
            if is_recorded(accelerators.in_use(self.torch)):
                self.account.begin_on_device()
        return self.plan is not None and self.attempt <= budget.ATTEMPTS and recorder.merge == 1

    def _is_eligible(self) -> bool:
        """The main thread of a rank's first process, where torch keeps silent and nobody commands it."""
        return (
            "." not in (self.session.tag or ".")
            and sys.modules["threading"].main_thread().ident == get_ident()  # only it sees the end coming
            and silence.is_silent(os.environ)
            and "KINETO_USE_DAEMON" not in os.environ
        )

    def _rank(self) -> int:
        return int((self.session.tag or "rank0")[4:])

    def _never(self, kind: int) -> Optional[str]:
        """Why a window of this kind must not open in this process."""
        if self.graphs:
            return CAPTURES
        if not self.used and self.users.were_there and not silence.is_chosen(os.environ):
            return (
                "a profiler of the script came first, and torch writes to stderr for ours as it did for that"
            )
        return stacks_unsafe(self.torch) if kind == budget.STACKS else None

    # ------------------------------------------------------------ opening

    def _arrive(self, recorder: Recorder, entry: budget.PlannedWindow, count: int) -> None:
        """The planned step is here, or nearly so."""
        if count < entry.step:
            recorder.cpu_due = True  # the row before the window ends a stretch of CPU time
            if entry.kind == budget.STACKS and entry.kind not in self.tried:
                self._begin_count(recorder)
            return
        self.attempt += 1
        self.wake_ns = 0
        window = ProfilerWindow(
            entry.kind, entry.step + 1 - budget.warm_up(entry.kind, entry.steps), entry.steps
        )
        if self.count.is_counting:
            window.calls = self.count.end(recorder)
            window.count_s = self.account.add_count(window.calls, self.count.limit)
        if count > entry.step:
            self._tell(window, "failed", "this rank came to the step too late")
        elif entry.kind not in self.tried:
            self.asked_ns = 0
            self.open = window  # first: others note themselves before they look at it
            busy = self.users.busy(self.torch)
            why_not = "a profiler of the script was prepared" if busy else self._never(entry.kind)
            unpaid = self.count.unpaid(window.calls) if entry.kind == budget.STACKS else None
            if why_not or unpaid:
                self.open = None
                self._tell(window, "yielded" if why_not else "put_off", why_not or unpaid)
            else:
                self._begin(recorder, window, entry)

    def _begin_count(self, recorder: Recorder) -> None:
        """Count the calls of the step that begins: the next one may be recorded with stacks."""
        if self._never(budget.STACKS) is None:
            self._mind_ends()
            first_ns = self.first_ns or recorder.since
            self.count.begin(recorder, self.account.payable_calls(recorder.since, first_ns, self.events))

    def _mind_ends(self) -> None:
        """Be there at the end, and where a child is made."""
        if not self.minds_ends:
            self.minds_ends = True
            atexit.register(patch.guarded("end of a window", self._at_exit))
            os.register_at_fork(before=patch.guarded("end of a window", self._before_fork))

    def _begin(self, recorder: Recorder, window: ProfilerWindow, entry: budget.PlannedWindow) -> None:
        """Start the profiler between two rows."""
        self._mind_ends()
        self.used = True
        self.users.acting = get_ident()
        started = False
        try:
            silence.silently(window.start, self.torch)
            started = True
        finally:
            self.users.acting = None
            if not started:
                self.open = None
                self._tell(window, "failed", "torch's profiler did not start")
        self.optimizer = entry.optimizer
        if not self.step_s:  # the plan was there before this rank had looked
            recent = self.counts[entry.optimizer] - self.base.get(entry.optimizer, 0)
            self.step_s = (window.opened_ns - self.base_ns) / max(1, recent) / 1e9
        recorder.hold(True)
        recorder.set_apart()
        if window.kind == budget.STACKS:
            self.limit = TimeLimit(budget.longest_s(self.step_s, self.count.limit))
        usual_ns = int(TOO_LONG * (window.steps + window.warm_up) * self.step_s * 1e9)
        self._watch_phases(recorder, window, recorder.since + max(usual_ns, TOO_LONG_NS))

    def _watch_phases(self, recorder: Recorder, window: ProfilerWindow, deadline_ns: int) -> None:
        """Until the window is closed, every phase that is entered asks first whether it has to be."""

        def on_enter() -> None:
            if self.asked_ns or clock() > deadline_ns or (self.limit is not None and self.limit.is_over):
                self.check(recorder, window)

        recorder.on_enter = on_enter

    def _check(self, recorder: Recorder, window: ProfilerWindow) -> None:
        """End the window before its time. One that was ended from elsewhere waits for the script's to end."""
        if not self.asked_ns:
            self._abandon(recorder, window, "abandoned", TOOK_LONG)
        elif clock() < self.asked_ns + MAKE_WAY_NS or not self.users.prepared:
            self._abandon(recorder, window, "yielded", "the script opened a profiler in another thread")

    # ------------------------------------------------------------ inside, and closing

    def _inside(self, recorder: Recorder, window: ProfilerWindow, optimizer: int) -> None:
        """A border inside the window."""
        recorder.flags |= DISTURBED
        recorder.cpu_due = True
        if self.asked_ns:
            self.check(recorder, window)
        elif recorder.off:
            self._abandon(recorder, window, "abandoned", "the watch ended inside it")
        elif self.limit is not None and self.limit.is_over:
            self._abandon(recorder, window, "abandoned", TOOK_LONG)
        elif optimizer == self.optimizer and not window.next_step(self.torch):
            self._finish(recorder, window)

    def _finish(self, recorder: Recorder, window: ProfilerWindow) -> None:
        """Stop, export, and set the time it took apart."""
        begin = core_time()
        self._stop(recorder, window)
        window.export(self._path(window))
        recorder.set_apart()
        self.tried.add(window.kind)
        self.account.add(
            window.kind,
            window.steps + window.warm_up,
            window.start_s,
            window.stop_s + window.export_s + window.slowdown_s(self.step_s),
            window.bytes,
            crowding(begin, core_time()),
        )
        self._rest(recorder.since)
        if window.bytes:
            self._tell(window, "ok", window.because)
        else:
            self._tell(window, "failed", "the trace could not be written")

    def _abandon(self, recorder: Recorder, window: ProfilerWindow, outcome: str, because: str) -> None:
        """End the profiler without export, here and now."""
        self._stop(recorder, window)
        window.profile = None
        recorder.flags |= DISTURBED
        recorder.since = clock()  # the time was ours: it goes to no phase
        self.account.add(window.kind, 0, window.start_s, window.stop_s, 0)
        self._rest(recorder.since)
        self.wake_ns = recorder.since + LOOK_AGAIN_NS
        self._tell(window, outcome, because)

    def _stop(self, recorder: Recorder, window: ProfilerWindow) -> None:
        """End the profiler; whatever happens, it is not tried a second time."""
        self.users.acting = get_ident()
        try:
            if self.limit is not None:
                self.limit.end()
            window.stop()
        finally:
            self.limit = None
            self.users.acting = None
            self.open = None
            recorder.hold(False)
            recorder.on_enter = None

    def _tell(self, window: ProfilerWindow, outcome: str, because: Optional[str]) -> None:
        self.session.write(window.event(self._path(window), outcome, because))

    def _path(self, window: ProfilerWindow) -> str:
        return self.session.path(lambda tag: names.trace_file(tag, window.kind))

    # ------------------------------------------------------------ making way

    def _make_way(self) -> None:
        """The script is about to prepare a profiler in the calling thread."""
        window, recorder = self.open, self.session.recorder
        if window is None or recorder is None:
            return
        if recorder.owner == get_ident():
            self._abandon(recorder, window, "yielded", "the script opened a profiler")
            return
        # Only the thread that opened ours can end it without words on stderr: wait for its next phase.
        since = self.asked_ns = clock()
        while self.open is window and clock() < since + MAKE_WAY_NS:
            sleep(POLL_S)
        if self.open is window:  # it is stuck, maybe waiting for this very thread
            self.users.acting = get_ident()
            window.tear()
            self.users.acting = None

    def before_capture(self, args: Any, kwargs: Any) -> None:
        """A CUDA graph is about to be captured: a profiler that ends in it would wait for the device."""
        self.graphs = True
        window, recorder = self.open, self.session.recorder
        if window is not None and recorder is not None and recorder.owner == get_ident():
            self._abandon(recorder, window, "yielded", CAPTURES)

    def _before_fork(self) -> None:
        """A child would inherit the open profiler, and record into it for ever."""
        window, recorder = self.open, self.session.recorder
        if recorder is None or recorder.owner != get_ident():
            return
        self.count.end(recorder)
        if window is not None:
            self._abandon(recorder, window, "abandoned", "the script started a process inside it")

    def after_fork(self) -> None:
        """In a child: keep what was inherited, for it must not be ended, and open nothing."""
        self.inherited, self.open, self.plan = self.open, None, None
        self.attempt, self.wake_ns = budget.ATTEMPTS + 1, budget.NEVER_NS
        if self.used:
            end_without_joining()

    def _at_exit(self) -> None:
        """An interpreter that ends with an open profiler crashes."""
        window, recorder = self.open, self.session.recorder
        if recorder is None:
            return
        self.count.end(recorder)
        if window is not None:
            self._abandon(recorder, window, "abandoned", "the script ended inside it")


def watch(session: Session, torch: Any, users: UsersProfilers, modules: Callable[[], int]) -> Windows:
    """The windows of this process, with the script's own profilers watched."""
    windows = Windows(session, torch, users, modules)
    install(users)
    os.register_at_fork(after_in_child=patch.guarded("end of a window", windows.after_fork))

    for module, name in (("cuda", "CUDAGraph"), ("xpu", "XPUGraph")):
        graph = getattr(getattr(torch, module, None), name, None)
        if graph is not None:
            patch.wrap(graph, "capture_begin", windows.before_capture, nothing, "window")
    return windows
