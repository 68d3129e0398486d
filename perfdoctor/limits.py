"""Ends the watch after so many steps or seconds and, where that was asked for, the script with it."""

from __future__ import annotations

import math
import signal
import time
from pathlib import Path

import psutil

from perfdoctor import rundir

POLL_S = 0.1  # how often steps are counted and deadlines looked at
# What ends a script, and how long it may take: it may save a checkpoint, or swallow an interrupt.
ENDINGS = ((signal.SIGINT, 10.0), (signal.SIGTERM, 5.0), (signal.SIGKILL, 5.0))


class Limit:
    """The bounds of one watch, asked every `pause_s` whether it is over."""

    def __init__(self, run: Path, max_steps: int | None, max_seconds: float | None) -> None:
        self.pause_s = POLL_S if max_steps is not None or max_seconds is not None else math.inf
        self._run = run
        self._max_steps = math.inf if max_steps is None else max_steps
        self._end_s = math.inf if max_seconds is None else time.monotonic() + max_seconds
        from perfdoctor.samplers.progress import Follower  # here: the command does not wait for numpy

        self._follower = Follower(run)
        self._over = False

    def is_over(self) -> bool:
        """Whether the watch has come to its end; the first time it has, the probes are told."""
        if not self._over and (time.monotonic() >= self._end_s or self._steps() >= self._max_steps):
            self._over = True
            rundir.end_watch(self._run)
        return self._over

    def _steps(self) -> int:
        return 0 if self._max_steps == math.inf else self._follower.look().steps


class Ending:
    """Ends the process `pid` and all below it, ever more firmly, tick by tick."""

    def __init__(self, pid: int) -> None:
        self.begun = False
        self._pid = pid
        self._left = iter(ENDINGS)
        self._due_s = 0.0

    def tick(self) -> None:
        """Send the next signal if the last one had its time."""
        now_s = time.monotonic()
        step = next(self._left, None) if now_s >= self._due_s else None
        if step is not None:
            self.begun = True
            self._due_s = now_s + step[1]
            send_to_tree(self._pid, step[0])


def send_to_tree(pid: int, number: int) -> None:
    """Signal a process and all below it, as a key on the terminal would."""
    try:
        process = psutil.Process(pid)
        tree = [*process.children(recursive=True), process]
    except psutil.Error:
        return
    for member in tree:
        try:
            member.send_signal(number)
        except psutil.Error:
            continue
