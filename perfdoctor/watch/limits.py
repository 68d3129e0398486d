"""Ends the watch after so many steps or seconds and, where that was asked for, the script with it."""

from __future__ import annotations

import math
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Protocol

import psutil

from perfdoctor.model.measured import Marker
from perfdoctor.runs import directory
from perfdoctor.watch.descendants import lives, with_descendants
from perfdoctor.wire.names import MEASURED, MEASURING, PROBE_LOG

TELL_S = 1.0  # between two looks for ranks that begin to record when the watch is over
POLL_S = 0.1  # how often steps are counted and deadlines looked at
# What ends a script, and how long it may take: it may save a checkpoint, or swallow an interrupt.
ENDINGS = ((signal.SIGINT, 10.0), (signal.SIGTERM, 5.0), (signal.SIGKILL, 5.0))
# Said before the first of them: an interrupted script shows a traceback as if it had failed.
STOPPED = "--stop: watching has ended; interrupting the script (a KeyboardInterrupt traceback is expected)"

EVALUATING_S = 60.0  # that a script may evaluate before it trains; longer, and evaluating is what it does
LEAVING_S = 5.0  # for a script to end by itself once the probe has ended it: it has its own cleaning up
# Between batches a measurement looks at its clock: one that takes so much longer is stuck in a batch.
STUCK, STUCK_S = 2.0, 60.0
TROUBLE = b"pid "  # how the probe begins a line of its log


class Limit(Protocol):
    """What says when a watch is over; asked every `pause_s`."""

    pause_s: float

    def is_over(self) -> bool:
        """Whether the watch has come to its end."""


class BenchmarkLimit:
    """The bounds of a loader's measurement: over once the script had its time to end after it, or hangs."""

    def __init__(self, run: Path, seconds: float) -> None:
        self.pause_s = POLL_S
        self._file = run / MEASURING
        self._longest_s = STUCK * seconds + STUCK_S
        self._begin_s = self._done_s = math.inf

    def is_over(self) -> bool:
        """Whether the script should be gone by now."""
        now_s = time.monotonic()
        stage = progress(self._file.parent)
        if stage is not None:
            self._begin_s = min(self._begin_s, now_s)
        elif self._is_probe_in_trouble():
            return True  # the probe is in trouble, and may let the script train to its end
        if stage == MEASURED:
            self._done_s = min(self._done_s, now_s)
        return now_s - self._done_s > LEAVING_S or now_s - self._begin_s > self._longest_s

    def _is_probe_in_trouble(self) -> bool:
        """Whether the probe has written to its log, in which samplers that fail have their lines, too."""
        with suppress(OSError):
            log = (self._file.parent / PROBE_LOG).read_bytes()
            return any(line.startswith(TROUBLE) for line in log.splitlines())
        return False


def progress(run: Path) -> str | None:
    """What is being measured just now: a few words, MEASURED in the end, None before it begins."""
    with suppress(OSError):
        return ((run / MEASURING).read_text(encoding="utf-8", errors="replace").split("\n")[-2:] or [""])[0]
    return None


class WatchLimit:
    """The bounds of one watch, asked every `pause_s` whether it is over."""

    def __init__(
        self,
        run: Path,
        max_steps: int | None,
        max_seconds: float | None,
        max_training_s: float | None = None,
        grace_s: float = 0.0,
        called_off: Callable[[], bool] = lambda: False,
    ) -> None:
        bounds = (max_steps, max_seconds, max_training_s)
        self.pause_s = math.inf if all(bound is None for bound in bounds) else POLL_S
        self._run = run
        self._max_steps = math.inf if max_steps is None else max_steps
        self._end_s = math.inf if max_seconds is None else time.monotonic() + max_seconds
        self._max_training_s = math.inf if max_training_s is None else max_training_s
        from perfdoctor.watch.samplers.progress import (
            ProgressReader,  # here: the command does not wait for numpy
        )

        self._follower = ProgressReader(run)
        self._grace_s = grace_s  # for a script that ends by itself after its last step
        self._called_off = called_off  # whether somebody else has ended it
        self._first_step_s = self._over_s = math.inf
        self._told, self._tell_s = 0, -math.inf  # ranks, and when to look for more

    @property
    def reached(self) -> bool:
        """Whether the watch has come to its end by its bounds, and not by that of the script."""
        return self._over_s < math.inf

    def is_over(self) -> bool:
        """Whether the watch has come to its end; once it has, the probes are told."""
        now_s = time.monotonic()
        if not self.reached and (now_s >= self._end_s or self._called_off() or self._trained(now_s)):
            self._over_s = now_s + (self._grace_s if now_s < self._end_s else 0.0)
        if self.reached and now_s >= self._tell_s:
            self._tell(now_s)
        return now_s >= self._over_s

    def _tell(self, now_s: float) -> None:
        """Have the ranks stop recording: those of a script that takes long to start, once they are there.

        What starts when these were told, after a failure say, is no part of this watch.
        """
        before, self._told = self._told, directory.end_watch(self._run)
        self._tell_s = math.inf if self._told and self._told == before else now_s + TELL_S

    def _trained(self, now_s: float) -> bool:
        """Whether enough steps were taken, or were taken for long enough."""
        if self._max_steps == self._max_training_s == math.inf:
            return False
        progress = self._follower.look()
        if progress.steps:
            self._first_step_s = min(self._first_step_s, now_s)
        trained_s = now_s - self._first_step_s
        trains = progress.marker is not None and progress.marker >= Marker.BACKWARD
        if self._max_training_s < math.inf and not trains and trained_s < EVALUATING_S:
            return False  # training may still begin
        return progress.steps >= self._max_steps or trained_s >= self._max_training_s


class Termination:
    """Ends the process `pid` and all that was below it, ever more firmly, tick by tick.

    `on_begin` is called before the first signal.
    """

    def __init__(self, pid: int, on_begin: Callable[[], object] = lambda: None) -> None:
        self.begun = False
        self._on_begin = on_begin
        self._pid = pid
        self._members: dict[psutil.Process, None] = {}  # as a set in order
        self._left = list(ENDINGS)
        self._due_s = 0.0

    def tick(self) -> None:
        """Send the next signal if the last one had its time."""
        now_s = time.monotonic()
        if self._left and now_s >= self._due_s:
            step = self._left.pop(0)
            if not self.begun:
                self._on_begin()
            self.begun = True
            self._due_s = now_s + step[1]
            self._members |= dict.fromkeys(reversed(with_descendants(self._pid)))  # the root comes last
            for member in self._members:
                with suppress(psutil.Error):  # it has ended, whoever may have its number now
                    member.send_signal(step[0])

    def finish(self) -> None:
        """Go on for what outlives the command: a shell dies of a signal that its ranks may ignore."""
        while any(map(lives, self._members)) and (self._left or time.monotonic() < self._due_s):
            self.tick()
            time.sleep(POLL_S)
