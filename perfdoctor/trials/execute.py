"""One execution of one variant: the command, tweaked, ended after its steps, and what it measured."""

from __future__ import annotations

import math
import os
import re
import shutil
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from perfdoctor import launch, printed, recorded
from perfdoctor.errors import PerfdoctorError
from perfdoctor.trial import ORIGINAL, Ending, Execution, Variant
from perfdoctor.trials import launching, leftovers, measured, metric
from perfdoctor.trials.memory import Peak
from perfdoctor.trials.plan import LOOK_S, Plan
from perfdoctor.trials.protect import Protection

SEED = 0
OUT_OF_MEMORY = re.compile(
    r"out of memory|OutOfMemoryError|MemoryError|Cannot allocate memory", re.IGNORECASE
)
FIRST_STEP_S = 900.0  # for a script to get to its first step: data sets are read, models compiled
KILLED = 9
NO_SPACE = "No space left on device"  # as the C library says it
LEAST_BYTES = 1 << 20  # with less, what is recorded of an execution does not fit either
MAKE_ROOM = "make room there, or keep the trial elsewhere: perfdoctor try --out FOLDER ..."


@dataclass(frozen=True)
class Executor:
    """Runs a command for a trial, each execution in a folder of its own below `folder`."""

    command: tuple[str, ...]
    folder: Path
    protection: Protection
    metric: re.Pattern[str] | None = None

    def look(self, variant: Variant = ORIGINAL) -> tuple[Execution, recorded.RunRecords | None]:
        """Run the original, or a number of ranks, for a few seconds of training; tell what it recorded."""
        ended = self._launch("look", variant, _Bounds(FIRST_STEP_S, LOOK_S))
        if ended.outcome.path is None:
            return self._told(Execution(0, Ending.FAILED), ended), None
        records = recorded.read(ended.outcome.path)
        found = measured.execution(records, 0, measured.warm_up(records), None)
        if found.step_s is None:  # steps so slow that all of them are warm-up: better than nothing
            found = measured.execution(records, 0, 0, None)
        return self._told(found, ended), records

    def execute(self, variant: Variant, name: str, number: int, plan: Plan) -> Execution:
        """Run a variant once, in round `number`, to its last step; `name` is that of its folder."""
        warm_up_steps, steps = plan.stretch(variant)
        warm_up, total = (
            math.ceil(count * plan.updates_per_step) for count in (warm_up_steps, warm_up_steps + steps)
        )
        bounds = _Bounds(plan.limit_s + FIRST_STEP_S, plan.limit_s, warm_up, total)
        ended = self._launch(name, variant, bounds)
        if ended.outcome.path is None:
            return self._told(Execution(number, Ending.FAILED), ended)
        records = recorded.read(ended.outcome.path)
        return self._told(measured.execution(records, number, warm_up_steps, steps), ended)

    def _launch(self, name: str, variant: Variant, bounds: _Bounds) -> _Ended:
        """Run the command to its end, behind what keeps the user's files as they are."""
        path = self.folder / name
        log = self.folder / f"{name}.log"
        words = self.command
        if variant.ranks is not None:
            words = launching.command(words, variant.ranks, os.environ)
        peak = Peak()
        with ExitStack() as after:
            after.callback(self.protection.tidy, path)
            after.callback(leftovers.end, path)  # comes first
            try:
                outcome = launch.run(words, self._options(path, log, variant, bounds), None, peak.watch)
                left_bytes = shutil.disk_usage(self.folder).free
            except OSError as error:
                raise PerfdoctorError(f"cannot write to {self.folder}: {error.strerror}", MAKE_ROOM) from None
        return _Ended(outcome, peak, log, left_bytes < LEAST_BYTES)

    def _options(self, path: Path, log: Path, variant: Variant, bounds: _Bounds) -> launch.Options:
        prepared = self.protection.prepare(path)
        hash_seed = os.environ.get("PYTHONHASHSEED", str(SEED))
        return launch.Options(
            max_steps=bounds.updates,
            max_seconds=bounds.seconds,
            stop=True,
            quiet=True,
            profiler=False,
            stacks=False,
            tweaks=variant.tweaks,
            trial=launch.Apart(
                path,
                log,
                SEED,
                max_training_s=bounds.training_s,
                warm_up_updates=bounds.warm_up_updates,
                before=prepared.before,
                environ={"PYTHONHASHSEED": hash_seed, **prepared.environ},
                protect=prepared.options,
                watched=variant.ranks is not None,
            ),
        )

    def _told(self, found: Execution, ended: _Ended) -> Execution:
        """What was measured, with how it ended and what it printed."""
        text, outcome = printed.tail(ended.log), ended.outcome
        ending = _ending(found, outcome, text)
        failed = ending in (Ending.FAILED, Ending.OUT_OF_MEMORY)
        if failed or ending is Ending.NO_STEPS:
            self._check_room(ended, text)
        return replace(
            found,
            ending=ending,
            host_bytes=max(filter(None, (found.host_bytes, ended.peak.bytes)), default=None),
            printed=metric.values(ended.log, self.metric) if self.metric else (),
            error=_error(text, outcome) if failed else None,
            ended_by=outcome.ended_by,
            log=str(ended.log),
        )

    def _check_room(self, ended: _Ended, text: str) -> None:
        """Raise where an execution had no room for what it writes, or for what is recorded of it."""
        if ended.is_full:
            raise PerfdoctorError(
                f"no space is left in {self.folder}, where the trial and what the script writes are kept",
                MAKE_ROOM,
            )
        if self.protection.memory_bytes and NO_SPACE in text:
            raise PerfdoctorError(
                f"what the script writes was kept in memory, {self.protection.memory_bytes / 1e9:.1f} GB at "
                "most, and did not fit",
                "keep the trial on a local disk that is no overlay: perfdoctor try --out FOLDER ...",
            )


@dataclass(frozen=True)
class _Bounds:
    """When an execution is over."""

    seconds: float  # from its start
    training_s: float
    warm_up_updates: int | None = None
    updates: int | None = None


@dataclass(frozen=True)
class _Ended:
    """An execution that is over: how the command ended, what it took and printed."""

    outcome: launch.Outcome
    peak: Peak
    log: Path
    is_full: bool  # the disk with the trial's folder, before what the execution wrote was removed


def _ending(found: Execution, outcome: launch.Outcome, text: str) -> Ending:
    """How an execution ended, for the trial: what comes after it was measured to the end does not count."""
    if outcome.interrupted:
        return Ending.INTERRUPTED
    if found.ended_early and (found.ending is Ending.MEASURED or outcome.failed is None):
        return found.ending
    if outcome.status == 0:
        return found.ending
    killed = outcome.signal == KILLED  # nobody but the kernel ends a trial so, for memory
    return Ending.OUT_OF_MEMORY if killed or OUT_OF_MEMORY.search(text) else Ending.FAILED


def _error(text: str, outcome: launch.Outcome) -> str:
    """What went wrong, in one line: the last error that was printed, else the exit status.

    Of several ranks, the error of the one that failed first: the others fail for want of it.
    """
    if outcome.failed is not None and (own := printed.last_error(text, outcome.failed_rank)) is not None:
        return f"rank {outcome.failed_rank}: {own}"
    error = printed.last_error(text)
    if outcome.failed is not None:
        return outcome.failed if error is None else f"{outcome.failed}: {error}"
    if error is not None:
        return error
    if outcome.signal is not None:
        return f"ended by signal {outcome.signal}"
    return f"exit status {outcome.status}"
