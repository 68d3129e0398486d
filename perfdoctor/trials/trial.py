"""Conducts a trial: plans it by a calibration run, lets its strategy measure, puts the result together."""

from __future__ import annotations

import math
import os
import signal
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Protocol

from perfdoctor.errors import SIGNALLED, Interrupted, PerfdoctorError
from perfdoctor.facts.user_source.clock_schedule import scheduling_line
from perfdoctor.facts.user_source.parse import Listing
from perfdoctor.model.concluded import Gain
from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.note import Note
from perfdoctor.model.trial import (
    LEAST_ROUNDS,
    ORIGINAL,
    Execution,
    ExecutionEnd,
    Trial,
    Variant,
    VariantResult,
)
from perfdoctor.redaction import redact
from perfdoctor.runs import directory
from perfdoctor.runs.types import RunRecords
from perfdoctor.trials import auto, baseline_run, lockstep, measure, plan, promise, scaling, settling
from perfdoctor.trials.baseline_run import BaselineRun
from perfdoctor.trials.execution import Executor
from perfdoctor.trials.request import ProgressDisplay, Request
from perfdoctor.trials.rounds import Bench
from perfdoctor.trials.sandbox import leftovers, protect
from perfdoctor.trials.settings import metric
from perfdoctor.trials.settings.auto_values import resolve
from perfdoctor.watch import command, samplers

MOST_TIME = 10  # times what was given: more is not advised, so that trainings can take turns
SETTLING_SHARE = 0.5  # of the time given, that the first epochs of all may take


class BaselineFailed(PerfdoctorError):
    """The script as it is fails: there is nothing to compare with."""

    exit_code = 1


class Strategy(Protocol):
    """What a trial measures, and what it makes of it."""

    @property
    def baseline(self) -> BaselineRun | None:
        """The run that predictions come from."""

    @property
    def variants(self) -> Sequence[Variant]:
        """What may be measured."""

    @property
    def comparisons(self) -> int:
        """How many share the trial's time."""

    @property
    def abreast(self) -> int:
        """How many are measured in the same rounds."""

    @property
    def calibrated(self) -> Variant:
        """What the calibration run executes."""

    @property
    def warnings(self) -> Sequence[Note]:
        """What is said before anything runs."""

    def measure(self, bench: Bench, left_s: float | None) -> Sequence[VariantResult]:
        """Measure, within `left_s` where the time is limited."""

    def complete(self, trial: Trial) -> Trial:
        """The trial with what only this strategy knows of it."""


@dataclass(frozen=True)
class SideBySide:
    """Each variant that was asked for, beside the script as it is."""

    variants: tuple[Variant, ...]
    baseline: BaselineRun | None
    calibrated: Variant = ORIGINAL
    warnings: tuple[Note, ...] = ()

    @property
    def comparisons(self) -> int:
        """One for each variant."""
        return len(self.variants)

    @property
    def abreast(self) -> int:
        """All of them."""
        return len(self.variants)

    def measure(self, bench: Bench, left_s: float | None) -> Sequence[VariantResult]:
        """All variants in the same rounds."""
        return bench.compare(self.variants)

    def complete(self, trial: Trial) -> Trial:
        """Nothing is left to be said."""
        return trial


def run(request: Request, progress: ProgressDisplay) -> Trial:
    """Measure what is requested: variants, what a run advises, or numbers of ranks.

    Raises PerfdoctorError where nothing can be measured: no such script, one that fails as it is, never
    steps or is too short, one whose files cannot be protected or whose ranks never join, no run to take
    advice from.
    """
    began_s = time.monotonic()
    strategy = _strategy(request)
    for warning in strategy.warnings:
        progress.say(warning)
    if left := leftovers.end_abandoned():
        progress.say(Note("ended-abandoned", {"count": left}))
    try:
        bench, protection = _prepare(request, progress, strategy)
        spent_s = time.monotonic() - began_s
        verdicts = strategy.measure(bench, None if request.seconds is None else request.seconds - spent_s)
    finally:
        progress.end()
    trial = _conclude(request, bench, verdicts, protection, time.monotonic() - began_s)
    trial = strategy.complete(trial)
    return trial if strategy.baseline is None else strategy.baseline.with_models(trial)


def _strategy(request: Request) -> Strategy:
    if request.ranks:
        return scaling.ScalingCurve.of(request)
    baseline = None if request.run is None else baseline_run.read(request.run)
    if request.auto:
        return auto.Walk.of(request, baseline)
    variants = resolve(request.variants, None if baseline is None else baseline.facts)
    return SideBySide(variants, baseline)


def _begun_s(calibration: Execution) -> float:
    """Seconds that the script took to its first steps; infinite where it is not known when it began."""
    if calibration.start_s is None:
        return math.inf
    return calibration.start_s + max(calibration.warm_up_s or 0.0, calibration.step_s or 0.0)


def _prepare(
    request: Request, progress: ProgressDisplay, strategy: Strategy
) -> tuple[Bench, protect.Protection]:
    """What is needed for the first round: a folder, protected files, and a plan from the calibration run."""
    began_s = time.monotonic()
    executor = _executor(request)
    first, baseline, variants = strategy.calibrated, strategy.baseline, strategy.variants
    progress.begin(f"{first.name}, calibration run", 0, 1, None)
    calibration, records = executor.calibrate(first)
    _check(calibration, first)
    assert records is not None  # of an execution that took steps
    longest = _longest_steps(calibration, baseline)
    batch, epoch = measure.batch(records), measure.epoch(records)
    most_held = max((plan.times_held(variant, batch) for variant in variants), default=1.0)
    known: dict[str, Any] = {
        "step_s": calibration.step_s or 0.0,
        "start_s": calibration.start_s or 0.0,
        "longest_steps": longest,
        "most_held": most_held,
        "variants": strategy.comparisons * (strategy.abreast + 1) // strategy.abreast - 1,
        "spent_s": time.monotonic() - began_s,
        "rounds": request.rounds,
        "steps": request.steps,
        "seconds": request.seconds,
    }
    budget_s = request.seconds or plan.usual_s(strategy.abreast)
    longest_s = SETTLING_SHARE * budget_s / (LEAST_ROUNDS * (strategy.abreast + 1))
    whole = plan.make(
        **known,
        warm_up_steps=settling.settled_after(records, variants, calibration, longest_s, longest),
        period=settling.recurring(records, variants, calibration, most_held),
        batch=batch,
        updates_per_step=measure.updates_per_step(records),
        begun_s=_begun_s(calibration),
    )
    predict = baseline.predict if baseline is not None else _unknown
    bench = Bench(executor, progress, whole, calibration, None, predict, epoch=epoch, longest_steps=longest)
    why = lockstep.obstacle(calibration, variants, strategy.abreast, most_held) or _by_the_clock(request)
    share, spent_s = strategy.abreast / strategy.comparisons, known["spent_s"]
    if request.seconds is not None:  # of what is left, each comparison has its part
        known |= {"seconds": (request.seconds - spent_s) * share, "spent_s": 0.0}
        bench.plan = whole = replace(whole, budget_s=known["seconds"])
    told = None if request.auto and request.seconds is None else share  # a walk shares only what is given
    known |= {
        "variants": strategy.abreast,
        "processes": max(1, len(records.ranks)),
        "cores": samplers.usable_cores()[0],
        "spare_updates": lockstep.spare_updates(records),
        "parks": calibration.device_bytes is not None,
    }
    turns = None if why is not None else plan.in_turns(whole, **known)
    if turns is not None and not _only_whole(bench, turns, variants, strategy.abreast, budget_s):
        bench.plan, bench.whole = turns, whole
    else:
        because = why or (
            _without_turns(whole, known, spent_s, told) if turns is None else "no turn holds an epoch"
        )
        bench.notes.append(Note("whole-executions", {"because": because}))
    _promise(request, progress, strategy, bench.plan, records, time.monotonic() - began_s)
    return bench, executor.protection


def _longest_steps(calibration: Execution, baseline: BaselineRun | None) -> int | None:
    """How many steps the script takes by itself; None where neither run tells."""
    taken = len(calibration.losses)
    if not calibration.ended_early:
        return taken
    longest = baseline.longest_steps if baseline is not None else None
    return None if longest is not None and taken >= longest else longest  # that run was of a shorter training


def _promise(
    request: Request,
    progress: ProgressDisplay,
    strategy: Strategy,
    planned: plan.TrialPlan,
    records: RunRecords,
    spent_s: float,
) -> None:
    """Say what the trial can tell in its time, and whether it can keep to it."""
    turn_steps = planned.steps // max(1, planned.turns)
    scatter = promise.pair_variance(records, planned.warm_up_steps, turn_steps)
    is_only_one = strategy.comparisons == len(strategy.variants) == 1
    notes = [promise.promised(planned, scatter, spent_s)] if is_only_one else []
    if request.seconds is not None:  # a walk makes as many comparisons as they hold
        notes.append(promise.overdrawn(planned, strategy.abreast + 1, spent_s, request.seconds))
    for note in filter(None, notes):
        progress.say(note)


def _without_turns(whole: plan.TrialPlan, known: dict[str, Any], spent_s: float, share: float | None) -> str:
    """Why there is no plan for turns, in half a sentence; a comparison has this share of all time."""
    most = plan.in_turns(whole, **known | {"steps": None})
    if most is not None and whole.steps > most.steps:
        return "--steps asks for more than turns hold"
    given_s = max(known["seconds"] or 0.0, plan.BUDGET_S)  # what is left of little tells nothing of the steps
    for percent in range(30, 100 * MOST_TIME, 10):
        enough_s = given_s * percent / 100.0
        if plan.in_turns(whole, **known | {"seconds": enough_s, "spent_s": 0.0}) is not None:
            because = "too little time for turns"
            return (
                because if share is None else f"{because}: --seconds {math.ceil(spent_s + enough_s / share)}"
            )
    return "its steps are too few, or too long"


def _only_whole(
    bench: Bench, turns: plan.TrialPlan, variants: Sequence[Variant], abreast: int, budget_s: float
) -> bool:
    """Whether what all variants change shows in whole executions within the time, and not in turns."""
    whole = bench.plan
    in_turns = replace(bench, plan=turns)
    if whole.rounds * (abreast + 1) * whole.execution_s > budget_s:
        return False
    return bool(variants) and all(
        in_turns.out_of_reach(each) is not None and bench.out_of_reach(each) is None for each in variants
    )


def _by_the_clock(request: Request) -> str | None:
    """Where the script lets a clock decide what it does, in half a sentence; None where it does not."""
    script = command.resolve(request.command, os.environ).script
    if script is None:
        return None
    with suppress(OSError, UnicodeDecodeError):
        line = scheduling_line(Listing(Path(script).read_text(encoding="utf-8").splitlines()))
        if line is not None:
            return f"{Path(script).name}:{line} goes by the clock, which does not rest"
    return None


def _unknown(variant: Variant) -> Gain | None:
    return None


def _executor(request: Request) -> Executor:
    """Where and how the command runs."""
    pattern = None if request.metric is None else metric.pattern(request.metric)
    out = None if request.out is None else str(Path(request.out).absolute())
    parent = directory.home(out, "trials").absolute()  # here, before the change of folder
    if request.cwd is not None:
        os.chdir(request.cwd)
    resolved = command.resolve(request.command, os.environ)
    if resolved.script_is_missing:
        hint = "check the path: perfdoctor try ... -- train.py"
        raise PerfdoctorError(f"{resolved.script}: there is no such file", hint)
    try:
        folder = directory.create(parent, resolved.name)
        protection = protect.choose(folder, Path.cwd(), resolved.is_python)
    except OSError as error:
        hint = "give a folder that you may write to: perfdoctor try --out FOLDER ..."
        raise PerfdoctorError(f"cannot write to {parent}: {error.strerror}", hint) from None
    if protection.how == "none" and not request.yes:
        raise PerfdoctorError(protection.sentence, "continue anyway: perfdoctor try --yes ...")
    return Executor(request.command, folder, protection, pattern, request.keep_arguments)


def _conclude(
    request: Request,
    bench: Bench,
    verdicts: Sequence[VariantResult],
    protection: protect.Protection,
    seconds: float,
) -> Trial:
    """The trial, with what a reader should know of it."""
    executions = [bench.calibration, *bench.originals]
    executions += [execution for verdict in verdicts for execution in verdict.executions]
    return Trial(
        request.command if request.keep_arguments else tuple(redact.command(request.command)),
        tuple(bench.originals),
        tuple(verdicts),
        bench.rounds,
        bench.plan.steps,
        bench.plan.warm_up_steps,
        seconds,
        bench.interrupted,
        bench.stopped_early,
        (
            protection.sentence,
            *_how_measured(executions, bench.plan, verdicts),
            *_unmatched(request, executions),
            *bench.notes,
            *bench.trouble,
        ),
        path=str(bench.executor.folder),
        cwd=os.getcwd(),
        exit_code=_exit_code(bench),
    )


def _exit_code(bench: Bench) -> int:
    """What a shell answers for the signal that ended the trial, 2 where it ran out of room, else 0."""
    if bench.ended_by is not None:
        return SIGNALLED + bench.ended_by
    return PerfdoctorError.exit_code if bench.trouble else 0


def _how_measured(
    executions: Sequence[Execution], planned: plan.TrialPlan, verdicts: Sequence[VariantResult]
) -> list[Note]:
    """What a reader should know of the steps that were measured."""
    notes = []
    if any(execution.ended_early for execution in executions):
        notes.append(Note("ended-after-steps"))
    for verdict in verdicts:
        is_compared = verdict.speedup is not None  # its tweaks did what they say
        if is_compared and plan.times_held(verdict.variant, planned.batch) != 1.0:
            warm_up_steps, steps = planned.stretch(verdict.variant)
            held = {"variant": verdict.variant.name, "steps": steps, "warm_up_steps": warm_up_steps}
            notes.append(Note("same-samples", held))
    if planned.period is not None and planned.steps < planned.period:
        notes.append(Note("longer-period", {"period": planned.period, "steps": planned.steps}))
    return notes


def _unmatched(request: Request, executions: Sequence[Execution]) -> list[Note]:
    if request.metric is None or any(execution.printed for execution in executions):
        return []
    return [Note("no-metric", {"metric": request.metric})]


def _check(calibration: Execution, variant: Variant) -> None:
    """Raise what keeps a script from being measured at all."""
    if calibration.ending is ExecutionEnd.INTERRUPTED:
        raise Interrupted(calibration.ended_by or signal.SIGINT)
    if calibration.ending in (ExecutionEnd.FAILED, ExecutionEnd.OUT_OF_MEMORY):
        how = "as it is" if variant == ORIGINAL else f"with {variant.name}"
        hint = f"its output is in {calibration.log}"
        if "EOFError" in (calibration.error or ""):
            hint += "; executions of a trial get no standard input: give the script its answers by arguments"
        raise BaselineFailed(f"the script fails {how}: {calibration.error}", hint)
    if not calibration.step_s:
        hint = f"its output is in {calibration.log}; watch it first: perfdoctor run ..."
        raise PerfdoctorError("the script ended before a training step could be measured", hint)
