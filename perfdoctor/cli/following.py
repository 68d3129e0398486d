"""Follows a run that goes on: how it is now, and the report so far, at a bounded cost."""

from __future__ import annotations

import threading
import time
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING

from perfdoctor.errors import PerfdoctorError

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from perfdoctor.model.live import LiveNow
    from perfdoctor.model.report import Report

LOOK_S = 1.0
# Shares of one core: together below a hundredth, once the early reports are made.
LOOKS_SHARE, REPORTS_SHARE = 0.005, 0.002
SMOOTHED = 4  # looks over which the cost of one is a mean
EARLY_S = (2.0, 9.0, 20.0)  # after the first step: reports that a verdict comes soon by
EARLY_SHARE = 0.05  # of a core, for these
LATER_S = 20.0  # at least between two others
THREAD = "perfdoctor report"


class Following:
    """A run that is looked at again and again. Raises NoSuchRun or NotARun where there is none."""

    def __init__(self, path: Path) -> None:
        from perfdoctor.runs.live import LiveRun

        self.path = path
        self._runs = {path: LiveRun(path)}  # its own, then those of other nodes of the job
        self._reports = ReportsSoFar(path)
        self._cost_s = 0.0
        self.now: LiveNow | None = None

    @property
    def report(self) -> Report | None:
        """The newest report so far."""
        return self._reports.newest

    def look(self) -> LiveNow:
        """How the run is now; where it is time for another report, that is begun."""
        from perfdoctor.facts import live
        from perfdoctor.facts.steps.rollout_share import share_of
        from perfdoctor.runs.live import LiveRun

        for part in self._reports.parts:
            if part not in self._runs:
                with suppress(PerfdoctorError, OSError):  # it has just gone
                    self._runs[part] = LiveRun(part)
        rollouts = share_of(self.report.notes) if self.report is not None else 0.0
        own, *others = (live.now(run.look(), rollouts) for run in self._runs.values())
        ranks = [*own.ranks, *(rank for other in others for rank in other.ranks)]
        self.now = replace(own, ranks=tuple(sorted(ranks, key=lambda rank: rank.rank)))
        if self.now.leading is not None:
            self._reports.stepped()
        return self.now

    def pause_s(self, spent_s: float) -> float:
        """How long to wait after a look, with its drawing, that took so many CPU seconds."""
        self._cost_s += (spent_s - self._cost_s) / SMOOTHED
        return max(LOOK_S, self._cost_s / LOOKS_SHARE)

    def conclude(self) -> Report | None:
        """The report of all there is, made at once."""
        return self._reports.make()


class ReportsSoFar:
    """The report of a run that goes on, made in a thread of its own: soon after the first steps, then rarely.

    Nothing is written into the run directory.
    """

    def __init__(self, path: Path, clock: Callable[[], float] = time.monotonic) -> None:
        self.newest: Report | None = None
        self.parts: list[Path] = []  # runs of other nodes of the same job, in the same folder
        self._path = path
        self._clock = clock
        self._thread: threading.Thread | None = None
        self._first_s: float | None = None
        self._made = 0
        self._due_s = 0.0

    def stepped(self) -> None:
        """There is a step: begin a report if one is due."""
        now_s = self._clock()
        if self._first_s is None:
            self._first_s = now_s
            self._due_s = now_s + EARLY_S[0]
        if now_s >= self._due_s and (self._thread is None or not self._thread.is_alive()):
            self._thread = threading.Thread(target=self._make_quietly, name=THREAD, daemon=True)
            self._thread.start()

    def make(self) -> Report | None:
        """Make one now, in this thread."""
        from perfdoctor import reporting
        from perfdoctor.runs import job

        with suppress(PerfdoctorError, OSError):  # a file that is just being replaced; the next one sees it
            self.parts = job.siblings(self._path)
            self.newest = reporting.judge(self._path)
        return self.newest

    def _make_quietly(self) -> None:
        from perfdoctor.own_failures import guarded

        began_s = time.thread_time()
        with guarded(lambda error: None):  # the report at the end says what failed in perfdoctor
            self.make()
        self._made += 1
        self._due_s = self._next_s(time.thread_time() - began_s)

    def _next_s(self, spent_s: float) -> float:
        assert self._first_s is not None
        if self._made < len(EARLY_S):
            return max(self._first_s + EARLY_S[self._made], self._clock() + spent_s / EARLY_SHARE)
        return self._clock() + max(LATER_S, spent_s / REPORTS_SHARE)
