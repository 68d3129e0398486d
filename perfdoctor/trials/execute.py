"""One execution of one variant: the command, tweaked, ended after its steps, and what it measured."""

from __future__ import annotations

import math
import os
import re
from dataclasses import dataclass, replace
from pathlib import Path

from perfdoctor import launch, printed, recorded
from perfdoctor.errors import PerfdoctorError
from perfdoctor.trial import ORIGINAL, Ending, Execution, Variant
from perfdoctor.trials import launching, measured, metric
from perfdoctor.trials.memory import Peak
from perfdoctor.trials.plan import LOOK_S, Plan
from perfdoctor.trials.protect import Protection

SEED = 0
OUT_OF_MEMORY = re.compile(
    r"out of memory|OutOfMemoryError|MemoryError|Cannot allocate memory", re.IGNORECASE
)
FIRST_STEP_S = 900.0  # for a script to get to its first step: data sets are read, models compiled
KILLED = 9


@dataclass(frozen=True)
class Executor:
    """Runs a command for a trial, each execution in a folder of its own below `folder`."""

    command: tuple[str, ...]
    folder: Path
    protection: Protection
    metric: re.Pattern[str] | None = None

    def look(self, variant: Variant = ORIGINAL) -> tuple[Execution, recorded.RunRecords | None]:
        """Run the original, or a number of ranks, for a few seconds of training; tell what it recorded."""
        outcome, peak, log = self._launch("look", variant, None, FIRST_STEP_S, LOOK_S)
        records = None if outcome.path is None else recorded.read(outcome.path)
        if records is None:
            return self._told(Execution(0, Ending.FAILED), outcome, peak, log), None
        found = measured.execution(records, 0, measured.warm_up(records), None)
        if found.step_s is None:  # steps so slow that all of them are warm-up: better than nothing
            found = measured.execution(records, 0, 0, None)
        return self._told(found, outcome, peak, log), records

    def execute(self, variant: Variant, name: str, number: int, plan: Plan) -> Execution:
        """Run a variant once, in round `number`, to its last step; `name` is that of its folder."""
        total = math.ceil((plan.warm_up_steps + plan.steps) * plan.updates_per_step)
        outcome, peak, log = self._launch(name, variant, total, plan.limit_s + FIRST_STEP_S, plan.limit_s)
        if outcome.path is None:
            return self._told(Execution(number, Ending.FAILED), outcome, peak, log)
        records = recorded.read(outcome.path)
        found = measured.execution(records, number, plan.warm_up_steps, plan.steps)
        return self._told(found, outcome, peak, log)

    def _launch(
        self,
        name: str,
        variant: Variant,
        max_steps: int | None,
        max_seconds: float,
        max_training_s: float,
    ) -> tuple[launch.Outcome, Peak, Path]:
        """Run the command to its end, behind what keeps the user's files as they are."""
        path = self.folder / name
        log = self.folder / f"{name}.log"
        prepared = self.protection.prepare(path)
        environ = {"PYTHONHASHSEED": os.environ.get("PYTHONHASHSEED", str(SEED)), **prepared.environ}
        words, scaled = self.command, variant.ranks is not None
        if variant.ranks is not None:
            words = launching.command(words, variant.ranks, os.environ)
        apart = launch.Apart(
            path, log, SEED, max_training_s, prepared.before, environ, prepared.options, scaled
        )
        options = launch.Options(
            max_steps=max_steps,
            max_seconds=max_seconds,
            stop=True,
            quiet=True,
            profiler=False,
            stacks=False,
            tweaks=variant.tweaks,
            trial=apart,
        )
        peak = Peak()
        try:
            outcome = launch.run(words, options, None, peak.watch)
        except OSError as error:
            hint = "make room there, or pass another folder: perfdoctor try --out FOLDER ..."
            raise PerfdoctorError(f"cannot write to {self.folder}: {error.strerror}", hint) from None
        finally:
            self.protection.tidy(path)
        return outcome, peak, log

    def _told(self, found: Execution, outcome: launch.Outcome, peak: Peak, log: Path) -> Execution:
        """What was measured, with how it ended and what it printed."""
        text = printed.tail(log)
        ending = _ending(found.ending, outcome, text)
        failed = ending in (Ending.FAILED, Ending.OUT_OF_MEMORY)
        return replace(
            found,
            ending=ending,
            host_bytes=max(filter(None, (found.host_bytes, peak.bytes)), default=None),
            printed=metric.values(log, self.metric) if self.metric else (),
            error=_error(text, outcome) if failed else None,
            log=str(log),
        )


def _ending(found: Ending, outcome: launch.Outcome, text: str) -> Ending:
    """How an execution ended, for the trial: what was measured to the end counts, whatever came after."""
    if outcome.interrupted:
        return Ending.INTERRUPTED
    if found is Ending.MEASURED or outcome.status == 0:
        return found
    killed = outcome.signal == KILLED  # nobody but the kernel ends a trial so, for memory
    return Ending.OUT_OF_MEMORY if killed or OUT_OF_MEMORY.search(text) else Ending.FAILED


def _error(text: str, outcome: launch.Outcome) -> str:
    """What went wrong, in one line: the last error that was printed, else the exit status."""
    error = printed.last_error(text)
    if error is not None:
        return error
    if outcome.signal is not None:
        return f"ended by signal {outcome.signal}"
    return f"exit status {outcome.status}"
