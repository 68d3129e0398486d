"""One execution of one variant: the command, tweaked, ended after its steps, and what it measured."""

from __future__ import annotations

import math
import os
import re
import shutil
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from perfdoctor.errors import PerfdoctorError
from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.trial import ORIGINAL, Execution, ExecutionEnd, Variant
from perfdoctor.redaction import redact
from perfdoctor.runs import records as recorded
from perfdoctor.trials import measure, settling
from perfdoctor.trials.plan import CALIBRATION_S, FIRST_STEP_S, TrialPlan
from perfdoctor.trials.sandbox import leftovers
from perfdoctor.trials.sandbox.guarded import guarded
from perfdoctor.trials.sandbox.memory import PeakMemory
from perfdoctor.trials.sandbox.protect import Protection
from perfdoctor.trials.settings import metric, rank_count
from perfdoctor.watch import launch, log_tail
from perfdoctor.watch.options import Options, TrialOptions

SEED = 0
OUT_OF_MEMORY = re.compile(
    r"out of memory|OutOfMemoryError|MemoryError|Cannot allocate memory", re.IGNORECASE
)
KILLED = 9
NO_SPACE = "No space left on device"  # as the C library says it
LEAST_BYTES = 1 << 20  # with less, what is recorded of an execution does not fit either
MAKE_ROOM = "free space there, or keep the trial elsewhere: perfdoctor try --out FOLDER ..."


@dataclass(frozen=True)
class Executor:
    """Runs a command for a trial, each execution in a folder of its own below `folder`."""

    command: tuple[str, ...]
    folder: Path
    protection: Protection
    metric: re.Pattern[str] | None = None
    keep_arguments: bool = False

    def calibrate(self, variant: Variant = ORIGINAL) -> tuple[Execution, recorded.RunRecords | None]:
        """Run the original, or a number of ranks, for a few seconds of training; tell what it recorded."""
        ended = self._launch("calibration", variant, StopRule(FIRST_STEP_S, CALIBRATION_S))
        if ended.outcome.path is None:
            return self.told(Execution(0, ExecutionEnd.FAILED), ended), None
        records = recorded.read(ended.outcome.path)
        execution = measure.execution(records, 0, measure.warm_up(records), None)
        if execution.step_s is None:  # steps so slow that all of them are warm-up: better than nothing
            execution = measure.execution(records, 0, 0, None)
        return self.told(execution, ended), records

    def execute(self, variant: Variant, name: str, number: int, plan: TrialPlan) -> Execution:
        """Run a variant once, in round `number`, to its last step; `name` is that of its folder."""
        warm_up_steps, steps = plan.stretch(variant)
        warm_up, total = (
            math.ceil(count * plan.updates_per_step) for count in (warm_up_steps, warm_up_steps + steps)
        )
        bounds = StopRule(plan.limit_s + first_step_s(plan, variant), plan.limit_s, warm_up, total)
        ended = self._launch(name, variant, bounds)
        if ended.outcome.path is None:
            return self.told(Execution(number, ExecutionEnd.FAILED), ended)
        records = recorded.read(ended.outcome.path)
        return self.told(measure.execution(records, number, warm_up_steps, steps), ended)

    def _launch(self, name: str, variant: Variant, bounds: StopRule) -> CommandRun:
        """Run the command to its end, behind what keeps the user's files as they are."""
        path = self.folder / name
        log = self.folder / f"{name}.log"
        words = self.command
        if variant.ranks is not None:
            words = rank_count.command(words, variant.ranks, os.environ)
        peak = PeakMemory()
        with ExitStack() as after:
            after.enter_context(guarded([path]))  # left last
            after.callback(self.protection.clear, path)
            after.callback(leftovers.end, path)  # comes first
            try:
                outcome = launch.run(words, self.options(path, log, variant, bounds), None, peak.watch)
                left_bytes = shutil.disk_usage(self.folder).free
            except OSError as error:
                raise self.no_room(error) from None
        return CommandRun(outcome, peak, log, left_bytes < LEAST_BYTES)

    def options(
        self,
        path: Path,
        log: Path,
        variant: Variant,
        bounds: StopRule,
        apart: bool = False,
        parks: bool = False,
    ) -> Options:
        """How a variant is launched, recorded at `path`; `apart` and `parks` as in TrialOptions."""
        prepared = self.protection.prepare(path)
        hash_seed = os.environ.get("PYTHONHASHSEED", str(SEED))
        return Options(
            max_steps=bounds.updates,
            max_seconds=bounds.seconds,
            stop=True,
            profiler=False,
            stacks=False,
            tweaks=variant.tweaks,
            keep_arguments=self.keep_arguments,
            trial=TrialOptions(
                path,
                log,
                SEED,
                max_training_s=bounds.training_s,
                warm_up_updates=bounds.warm_up_updates,
                before=prepared.before,
                environ={"PYTHONHASHSEED": hash_seed, **prepared.environ, **leftovers.owned(path)},
                protect=prepared.options,
                watched=variant.ranks is not None,
                apart=apart,
                parks=parks,
            ),
        )

    def told(self, execution: Execution, ended: CommandRun) -> Execution:
        """What was measured, with how it ended and what it printed."""
        text, outcome = log_tail.tail(ended.log), ended.outcome
        ending = _ending(execution, outcome, text)
        failed = ending in (ExecutionEnd.FAILED, ExecutionEnd.OUT_OF_MEMORY)
        if failed or ending is ExecutionEnd.NO_STEPS:
            self._check_room(ended, text)
        return replace(
            execution,
            ending=ending,
            host_bytes=max(filter(None, (execution.host_bytes, ended.peak.bytes)), default=None),
            printed=metric.values(ended.log, self.metric) if self.metric else (),
            error=self._redacted(_error(text, outcome)) if failed else None,
            ended_by=outcome.ended_by,
            log=str(ended.log),
        )

    def _redacted(self, error: str) -> str:
        """An error that the script printed, without what is secret by its look, its name, or the command."""
        if self.keep_arguments:
            return error
        return redact.text(error, redact.secrets(self.command, os.environ))

    def no_room(self, error: OSError) -> PerfdoctorError:
        """What to raise where an execution's folder cannot be written to."""
        return PerfdoctorError(f"cannot write to {self.folder}: {error.strerror}", MAKE_ROOM)

    def _check_room(self, ended: CommandRun, text: str) -> None:
        """Raise where an execution had no room for what it writes, or for what is recorded of it."""
        if ended.is_full:
            raise PerfdoctorError(
                f"no space left in {self.folder}, which holds the trial and the files that the script writes",
                MAKE_ROOM,
            )
        if self.protection.memory_bytes and NO_SPACE in text:
            raise PerfdoctorError(
                f"what the script writes was kept in memory, {self.protection.memory_bytes / 1e9:.1f} GB at "
                "most, and did not fit",
                "keep the trial on a local disk that is not an overlay: perfdoctor try --out FOLDER ...",
            )


def first_step_s(plan: TrialPlan, *variants: Variant) -> float:
    """How long executions are given to get to their first step: what compiles may take its time."""
    return FIRST_STEP_S if any(map(settling.compiles, variants)) else plan.first_step_s


@dataclass(frozen=True)
class StopRule:
    """When an execution is over; without bounds, whoever started it ends it."""

    seconds: float | None = None  # from its start
    training_s: float | None = None
    warm_up_updates: int | None = None
    updates: int | None = None


@dataclass(frozen=True)
class CommandRun:
    """An execution that is over: how the command ended, what it took and printed."""

    outcome: launch.CommandExit
    peak: PeakMemory
    log: Path
    is_full: bool  # the disk with the trial's folder, before what the execution wrote was removed


def _ending(execution: Execution, outcome: launch.CommandExit, text: str) -> ExecutionEnd:
    """How an execution ended, for the trial: what comes after it was measured to the end does not count."""
    if outcome.interrupted:
        return ExecutionEnd.INTERRUPTED
    if execution.ended_early and (execution.ending is ExecutionEnd.MEASURED or outcome.failed is None):
        return execution.ending
    if outcome.status == 0:
        return execution.ending
    killed = outcome.signal == KILLED  # nobody but the kernel ends a trial so, for memory
    return ExecutionEnd.OUT_OF_MEMORY if killed or OUT_OF_MEMORY.search(text) else ExecutionEnd.FAILED


def _error(text: str, outcome: launch.CommandExit) -> str:
    """What went wrong, in one line: the last error that was printed, else the exit status.

    Of several ranks, the error of the one that failed first: the others fail for want of it.
    """
    if (
        outcome.failed is not None
        and (rank_error := log_tail.last_error(text, outcome.failed_rank)) is not None
    ):
        return f"rank {outcome.failed_rank}: {rank_error}"
    error = log_tail.last_error(text)
    if outcome.failed is not None:
        return outcome.failed if error is None else f"{outcome.failed}: {error}"
    if error is not None:
        return error
    if outcome.signal is not None:
        return f"ended by signal {outcome.signal}"
    return f"exit status {outcome.status}"
