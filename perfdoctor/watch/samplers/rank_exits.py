"""How the ranks of a run end, and in which order: seen from outside, whatever started them.

The kernel tells the end of a process at once, and until its parent has asked for it, its exit status can be
read. So the rank that failed first is known to the millisecond, even where a launcher that looks ten times a
second finds all of them failed. Only Linux can tell; elsewhere, launchers do.
"""

from __future__ import annotations

import os
import select
import threading
import time
from contextlib import suppress
from pathlib import Path

from perfdoctor.runs import exits as ended
from perfdoctor.runs.directory import append_line
from perfdoctor.watch.samplers.processes import ProcessTree
from perfdoctor.wire.names import AGENT

OPENS = getattr(os, "pidfd_open", None)
STATUS_FIELD = 49  # of /proc/PID/stat, counted from the state on (proc(5): field 52, the state is field 3)
LAST_ENDS_S = 1.0  # for the ends of processes that are gone by now to be written down


class RankExits:
    """Waits for the ends of a run's ranks, and writes down how, or at least when, those ended that failed."""

    def __init__(self, run: Path, tree: ProcessTree) -> None:
        self._run = run
        self._tree = tree
        self._known: set[int] = set()
        self._waiter: _ExitWaiter | None = None

    def tick(self, now_s: float) -> None:
        """Wait for the ranks that have come since the last time, too."""
        if OPENS is None or not self._tree.is_job():
            return
        members = {member.pid for member in self._tree.look(now_s)}
        for tag, pid in self._tree.ranks(now_s).items():
            if pid in members and pid not in self._known:
                self._known.add(pid)
                self._waiter = self._waiter or _ExitWaiter(self._run)
                with suppress(OSError):  # it has just ended
                    self._waiter.add(OPENS(pid), int(tag.removeprefix("rank").split(".")[0]), pid)

    def close(self) -> None:
        """Write down what has ended, and wait for no more."""
        if self._waiter is not None:
            self._waiter.close()


class _ExitWaiter:
    """A thread that sleeps until one of the processes ends."""

    def __init__(self, run: Path) -> None:
        self._run = run
        self._poll = select.poll()
        self._coming: list[tuple[int, int, int]] = []  # (descriptor, rank, process id), not waited for yet
        self._waited: dict[int, tuple[int, int]] = {}  # descriptor -> (rank, process id)
        self._closing = False
        self._woken, self._wake = os.pipe()
        self._poll.register(self._woken, select.POLLIN)
        self._thread = threading.Thread(target=self._loop, name="perfdoctor ends", daemon=True)
        self._thread.start()

    def add(self, descriptor: int, rank: int, pid: int) -> None:
        """Wait for this one, too."""
        self._coming.append((descriptor, rank, pid))
        os.write(self._wake, b".")

    def close(self) -> None:
        """Take in what has ended by now, and end."""
        self._closing = True
        os.write(self._wake, b".")
        self._thread.join(LAST_ENDS_S)

    def _loop(self) -> None:
        closing = False
        while True:
            ready = [descriptor for descriptor, _ in self._poll.poll(0 if closing else None)]
            if closing and not ready:
                break
            closing = self._closing
            for descriptor in ready:
                if descriptor == self._woken:
                    self._take_in()
                else:
                    self._end(descriptor)
        for descriptor in (*self._waited, self._woken, self._wake):
            os.close(descriptor)

    def _take_in(self) -> None:
        os.read(self._woken, 4096)
        while self._coming:
            descriptor, rank, pid = self._coming.pop()
            self._waited[descriptor] = rank, pid
            self._poll.register(descriptor, select.POLLIN)

    def _end(self, descriptor: int) -> None:
        at_ns = time.perf_counter_ns()
        rank, pid = self._waited.pop(descriptor)
        code = exit_code(pid)
        self._poll.unregister(descriptor)
        os.close(descriptor)
        line = {"t_ns": at_ns, "rank": rank, "pid": pid}
        with suppress(OSError):  # the disk is full, or the run directory gone
            if code:
                status = {"exitcode": code, "signal": -code if code < 0 else None}
                append_line(self._run / AGENT, {"event": ended.FAILED, **line, **status})
            elif code is None:
                append_line(self._run / ended.FILE, {"event": "rank_ended", **line})


def exit_code(pid: int) -> int | None:
    """How a process that its parent has not asked for yet has ended: -9 for signal 9; None where unknown."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            stat = file.read()
            owner = os.fstat(file.fileno()).st_uid
        fields = stat[stat.rindex(b")") + 2 :].split()
        ended = fields[0] in (b"Z", b"X")
        readable = os.geteuid() in (0, owner)  # to others, every status is 0
        return os.waitstatus_to_exitcode(int(fields[STATUS_FIELD])) if ended and readable else None
    except (OSError, ValueError, IndexError):
        return None
