"""The device's idle time, charged to causes: a partition, exact to the nanosecond.

Each gap between device events ends with the next event, which some thread launched. Of the gap,
1. time until the launch, in which that thread was inside a DataLoader, is DATA_WAIT;
2. else, time in which it was inside a blocking copy is COPY, and what that one takes once it is launched;
3. else, time until the launch is SYNC if the host was waiting for the device when the gap began
   (it had let the queue run empty), or while it is inside a waiting call; and HOST_LATE if not;
4. the rest, from the launch on, is LAUNCH_GAP as long as latency may be: whatever the host does meanwhile,
   the device has work. From then on it is UNKNOWN: the device waits for work that the trace does not hold,
   such as what was launched before the profiler started.
The launch is where its call begins, or where a longer one has left what launches usually take: until then the
host loads code or is held up in the driver.
Where the launch is not in the trace, all of the gap is UNKNOWN, too. OTHER_RANK needs the other ranks:
waiting for them happens inside communication kernels, where the device is busy (see collectives.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from perfdoctor.model.dataclass import dataclass
from perfdoctor.trace.measure.annotations import Annotations
from perfdoctor.trace.measure.by_thread import ByThread
from perfdoctor.trace.measure.device_activity import Activity
from perfdoctor.trace.measure.intervals import NS, Spans, covered, either, parts
from perfdoctor.trace.measure.sync_calls import SyncCalls
from perfdoctor.trace.parse.columns import UNKNOWN, Flags, Ints, Trace
from perfdoctor.trace.results import IdleCause

CAUSES = (
    IdleCause.DATA_WAIT, IdleCause.COPY, IdleCause.SYNC, IdleCause.HOST_LATE, IdleCause.LAUNCH_GAP,
    IdleCause.UNKNOWN,
)  # fmt: skip
LAUNCH_NS = 10_000  # that a call takes to launch, generously
# From a launch to its start, generously: in 70 traces of devices of two vendors, 0.2 ms at most.
LATENCY_NS = 1_000_000
FAR = np.iinfo(np.int64).max // 2  # beyond every time stamp, and differences fit


@dataclass(frozen=True)
class Gaps:
    """Stretches without any device event, n of them in order of time."""

    begin_ns: Ints
    end_ns: Ints
    launch_ns: Ints  # when the next event was launched
    thread: Ints  # that launched it, UNKNOWN if not in the trace
    copies: Flags  # whether that launch is a blocking copy
    drained: Ints  # the blocking call that the host was in when the gap began, else UNKNOWN


@dataclass(frozen=True)
class _Host:
    """What one thread did, each time in one set only."""

    data: Spans
    copy: Spans
    sync: Spans


class Idle:
    """Charges the idle time of any stretch of a trace; `call` as from `launching_calls`."""

    def __init__(
        self, trace: Trace, device: Activity, call: Ints, annotations: Annotations, blocking: SyncCalls
    ) -> None:
        self.trace = trace
        self.blocking = blocking
        self.blocking_by_thread = ByThread(trace.calls, blocking.all)
        self.device = device
        self.gaps = self._gaps(call)
        threads = np.unique(self.gaps.thread[self.gaps.thread != UNKNOWN]).tolist()
        self.hosts = {thread: self._host(thread, annotations) for thread in threads}
        for thread in threads:
            self._find_drained(thread)

    def whole(self) -> Mapping[IdleCause, float]:
        """Microseconds by cause from the first device event to the last."""
        return self.within(self.device.begin_ns, self.device.end_ns)

    def within(self, begin_ns: int, end_ns: int) -> Mapping[IdleCause, float]:
        """Microseconds by cause in one stretch of time; only causes that occur."""
        return self.each(np.array([begin_ns]), np.array([end_ns]))[0]

    def each(self, begin_ns: Ints, end_ns: Ints) -> list[Mapping[IdleCause, float]]:
        """The same for n stretches of time: two (n,) int64."""
        sums = np.zeros((len(begin_ns), len(CAUSES)), np.int64)
        for gap, stretch in self._touched(begin_ns, end_ns):
            np.add.at(sums, stretch, self._charged(gap, begin_ns[stretch], end_ns[stretch]).T)
        return [
            {cause: ns / NS for cause, ns in zip(CAUSES, row, strict=True) if ns} for row in sums.tolist()
        ]

    def by_call(self, begin_ns: Ints, end_ns: Ints) -> Ints:
        """(calls,) int64: nanoseconds that the device stood idle for each blocking call in stretches of time.

        The time charged to COPY and SYNC goes to the call that let the queue run empty or, where none did, to
        the last one before the gap ended.
        """
        total = np.zeros(len(self.trace.calls), np.int64)
        culprit = self._culprits()
        for gap, stretch in self._touched(begin_ns, end_ns):
            charged = self._charged(gap, begin_ns[stretch], end_ns[stretch])
            cost = charged[CAUSES.index(IdleCause.COPY)] + charged[CAUSES.index(IdleCause.SYNC)]
            solved = culprit[gap] != UNKNOWN
            np.add.at(total, culprit[gap][solved], cost[solved])
        return total

    def _culprits(self) -> Ints:
        """The call that each gap's waiting is charged to, UNKNOWN where its thread had not waited."""
        culprit: Ints = self.gaps.drained.copy()
        for thread in self.hosts:
            for rows in self._ended_by(thread):
                unsolved = rows[culprit[rows] == UNKNOWN]
                culprit[unsolved] = self._last_blocking(thread, self.gaps.end_ns[unsolved] - 1)
        return culprit

    def _touched(self, begin_ns: Ints, end_ns: Ints) -> Iterator[tuple[Ints, Ints]]:
        """The gaps that reach into each of n stretches of time: numbers of both, some at a time."""
        first = np.searchsorted(self.gaps.end_ns, begin_ns, side="right")
        count = np.maximum(np.searchsorted(self.gaps.begin_ns, end_ns) - first, 0)
        until = np.cumsum(count)  # pairs of a gap and a stretch, up to each stretch
        for part in parts(0, int(count.sum())):
            pair = np.arange(part.start, part.stop)
            stretch = np.searchsorted(until, pair, side="right")
            yield first[stretch] + pair - (until - count)[stretch], stretch

    def _gaps(self, call: Ints) -> Gaps:
        """All gaps, and the stretches before the first device event and after the last.

        The last stretch belongs to the thread that launched last and is waiting for a launch to its end.
        """
        device, busy, calls = self.trace.device, self.device.busy, self.trace.calls
        begin, end = np.append(-FAR, busy.end), np.append(busy.begin, FAR)
        order = np.argsort(device.begin_ns, kind="stable")
        launch = call[order[np.searchsorted(device.begin_ns[order], end[:-1])]]
        thread, launch_ns = np.full(len(begin), UNKNOWN, np.int32), np.full(len(begin), FAR)
        known = np.flatnonzero(launch != UNKNOWN)
        thread[known] = calls.thread[launch[known]]
        made_ns = np.minimum(calls.ends_ns(launch[known]), end[known])  # an event may begin within its call
        launch_ns[known] = np.maximum(calls.begin_ns[launch[known]], made_ns - LAUNCH_NS)
        if len(known):
            thread[-1] = thread[known[-1]]
        copies = np.append(np.isin(launch, self.blocking.copy), False)
        return Gaps(begin, end, launch_ns, thread, copies, np.full(len(begin), UNKNOWN, np.int32))

    def _host(self, thread: int, annotations: Annotations) -> _Host:
        loading = annotations.dataloader()
        data = annotations.spans(loading[annotations.events.thread[loading] == thread])
        copy = self._spans(self.blocking.copy, thread).minus(data)
        waiting = np.concatenate((self.blocking.synchronize, self.blocking.free))
        return _Host(data, copy, self._spans(waiting, thread).minus(either(data, copy)))

    def _spans(self, calls: Ints, thread: int) -> Spans:
        return covered(self.trace.calls, calls[self.trace.calls.thread[calls] == thread])

    def _find_drained(self, thread: int) -> None:
        """Note for the gaps that a thread ended whether it was in a blocking call when they began."""
        gaps = self.gaps
        for rows in self._ended_by(thread):
            call = self._last_blocking(thread, gaps.begin_ns[rows])
            lasting = (call != UNKNOWN) & (self.trace.calls.ends_ns(call) >= gaps.begin_ns[rows])
            gaps.drained[rows[lasting]] = call[lasting]

    def _ended_by(self, thread: int) -> Iterator[Ints]:
        """Numbers of the gaps that a thread ended, some at a time."""
        for part in parts(0, len(self.gaps.thread)):
            yield part.start + np.flatnonzero(self.gaps.thread[part] == thread)

    def _last_blocking(self, thread: int, at_ns: Ints) -> Ints:
        """The last blocking call that a thread had begun at points in time, UNKNOWN if there was none."""
        calls, begin = self.blocking_by_thread.of(thread)
        if not len(calls):
            return np.full(len(at_ns), UNKNOWN, np.int64)
        place = np.searchsorted(begin, at_ns, side="right") - 1
        return np.where(place >= 0, calls[np.maximum(place, 0)], UNKNOWN)

    def _charged(self, gap: Ints, begin_ns: Ints, end_ns: Ints) -> Ints:
        """(causes, n) nanoseconds of n gaps by their numbers, each clipped to its [begin, end)."""
        gaps = self.gaps
        begin, end = gaps.begin_ns[gap].clip(begin_ns, end_ns), gaps.end_ns[gap].clip(begin_ns, end_ns)
        thread, drained = gaps.thread[gap], gaps.drained[gap] != UNKNOWN
        middle = np.clip(gaps.launch_ns[gap], begin, end)
        charged = np.zeros((len(CAUSES), len(begin)), np.int64)
        for number, host in self.hosts.items():
            rows = np.flatnonzero(thread == number)
            first, launch, last = begin[rows], middle[rows], end[rows]
            data, copy = host.data.within(first, launch), host.copy.within(first, launch)
            before = launch - first - data - copy
            sync = np.where(drained[rows], before, host.sync.within(first, launch))
            copied = np.where(gaps.copies[gap[rows]], host.copy.within(launch, last), 0)
            after = last - launch - copied
            # From when the device could begin, whatever part of the gap is asked for.
            ready = np.maximum(gaps.launch_ns, gaps.begin_ns)[gap[rows]]
            latency = np.minimum(after, np.clip(ready + LATENCY_NS, launch, last) - launch)
            charged[:, rows] = (data, copy + copied, sync, before - sync, latency, after - latency)
        lost = thread == UNKNOWN
        charged[5, lost] = (end - begin)[lost]
        return charged
