"""A whole trial: what it needs is made ready, the rounds are run, and what came out is put together."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from perfdoctor import catalogue, command, rundir
from perfdoctor.errors import PerfdoctorError
from perfdoctor.model import Gain
from perfdoctor.recorded import RunRecords
from perfdoctor.trial import ORIGINAL, Ending, Execution, Trial, Variant, Verdict
from perfdoctor.trials import auto, flags, measured, metric, plan, protect
from perfdoctor.trials.asked import SIGNALLED, Asked, Interrupted, Progress
from perfdoctor.trials.bench import Bench
from perfdoctor.trials.execute import Executor
from perfdoctor.trials.known import Known, known
from perfdoctor.trials.settle import settle


class BaselineFailed(PerfdoctorError):
    """The script as it is fails: there is nothing to compare with."""

    exit_code = 1


def run(asked: Asked, progress: Progress) -> Trial:
    """Measure the variants that were asked for, against the script as it is.

    Raises PerfdoctorError where nothing can be measured: no such script, one that fails as it is, never
    steps or is too short, or one whose files cannot be protected.
    """
    began_s = time.monotonic()
    found = None if asked.run is None else known(asked.run)
    variants = settle(asked.variants, None if found is None else found.facts)
    try:
        bench, protection = prepare(asked, progress, found, variants, len(variants))
        verdicts = bench.compare(variants)
    finally:
        progress.end()
    return conclude(asked, bench, verdicts, protection, time.monotonic() - began_s)


def walk(asked: Asked, progress: Progress) -> Trial:
    """Try what the findings of a run advise, one on top of the other, and keep what proves faster.

    Raises PerfdoctorError as `run` does, and where there is no run whose findings could be walked.
    """
    if asked.run is None:
        hint = "watch the script first: perfdoctor run ..., then: perfdoctor try --auto"
        raise PerfdoctorError("there is no run of this command to take advice from", hint)
    began_s = time.monotonic()
    found = known(asked.run)
    tweaks = catalogue.tweaks()
    named = settle(asked.variants, found.facts)
    to_try, notes = auto.candidates(found.report.findings, lambda words: flags.read(words, tweaks), named)
    if not to_try:
        hint = "; ".join(notes) or "name tweaks to have them tried: perfdoctor try --auto --amp"
        raise PerfdoctorError("nothing to try: no finding of the run can be applied by a tweak", hint)
    variants = [Variant(candidate.settings) for candidate in to_try]
    comparisons = len(to_try) + 1  # with the last one, of all that is kept
    try:
        count = 2 * comparisons - 1 if asked.seconds else 1
        bench, protection = prepare(asked, progress, found, variants, count)
        walked = auto.walk(
            to_try,
            lambda variant, over: bench.compare([variant], over)[0],
            found.predict,
            progress.say,
            None if asked.seconds is None else asked.seconds - (time.monotonic() - began_s),
        )
    finally:
        progress.end()
    trial = conclude(asked, bench, (), protection, time.monotonic() - began_s)
    return auto.into(replace(walked, notes=(*notes, *walked.notes)), trial)


def prepare(
    asked: Asked,
    progress: Progress,
    found: Known | None,
    variants: Sequence[Variant],
    count: int,
    first: Variant = ORIGINAL,
) -> tuple[Bench, protect.Protection]:
    """Everything up to the first round of `count` variants: where, how files are protected, how long.

    The plan comes from a first look at `first`. Raises PerfdoctorError where nothing can be measured.
    """
    began_s = time.monotonic()
    executor = _executor(asked)
    progress.begin(f"{first.name}, a first look", 0, 1, None)
    looked, records = executor.look(first)
    _check(looked, first)
    assert records is not None  # of an execution that took steps
    longest = found.longest_steps if found is not None else None
    if not looked.ended_early:
        longest = len(looked.losses)
    batch = measured.batch(records)
    most_held = max((plan.times_held(variant, batch) for variant in variants), default=1.0)
    planned = plan.make(
        step_s=looked.step_s or 0.0,
        start_s=looked.start_s or 0.0,
        warm_up_steps=_warm_up(records, variants, looked),
        longest_steps=longest,
        period=measured.period(records, most_held),
        batch=batch,
        most_held=most_held,
        updates_per_step=measured.updates_per_step(records),
        variants=count,
        spent_s=time.monotonic() - began_s,
        rounds=asked.rounds,
        steps=asked.steps,
        seconds=asked.seconds,
    )
    predict = found.predict if found is not None else _unknown
    return Bench(executor, progress, planned, looked, predict), executor.protection


def _loading(variants: Sequence[Variant]) -> list[dict[str, int]]:
    """Workers and prefetch that the original (nothing) and each variant set."""
    own = [
        {
            each.tweak: value
            for each in variant.settings
            if isinstance(value := each.values.get(flags.VALUE), int)
        }
        for variant in variants
    ]
    return [{}, *own]


def _warm_up(records: RunRecords, variants: Sequence[Variant], looked: Execution) -> int:
    """Steps until all have settled; what is compiled meets a smaller batch at the end of an epoch."""
    steps = measured.warm_up(records, _loading(variants))
    every = measured.period(records)
    compiles = any(setting.tweak == "compile" for each in variants for setting in each.settings)
    if compiles and every is not None and every * (looked.step_s or 0.0) <= plan.LOOK_S:
        return every + steps
    return steps


def _unknown(variant: Variant) -> Gain | None:
    return None


def _executor(asked: Asked) -> Executor:
    """Where and how the command runs."""
    pattern = None if asked.metric is None else metric.pattern(asked.metric)
    out = None if asked.out is None else str(Path(asked.out).absolute())
    parent = rundir.home(out, "trials").absolute()  # here, before the change of folder
    if asked.cwd is not None:
        os.chdir(asked.cwd)
    chosen = command.resolve(asked.command, os.environ)
    if chosen.script_is_missing:
        hint = "name one that is: perfdoctor try ... -- train.py"
        raise PerfdoctorError(f"{chosen.script}: there is no such file", hint)
    try:
        folder = rundir.create(parent, chosen.name)
        protection = protect.choose(folder, Path.cwd(), chosen.is_python)
    except OSError as error:
        hint = "pass a folder that you may write to: perfdoctor try --out FOLDER ..."
        raise PerfdoctorError(f"cannot write to {parent}: {error.strerror}", hint) from None
    if protection.how == "none" and not asked.yes:
        raise PerfdoctorError(protection.said, "go on all the same: perfdoctor try --yes ...")
    return Executor(asked.command, folder, protection, pattern)


def conclude(
    asked: Asked,
    bench: Bench,
    verdicts: Sequence[Verdict],
    protection: protect.Protection,
    seconds: float,
) -> Trial:
    """The trial, with what a reader should know of it."""
    executions = [bench.looked, *bench.originals, *(own for told in verdicts for own in told.executions)]
    return Trial(
        asked.command,
        tuple(bench.originals),
        tuple(verdicts),
        bench.rounds,
        bench.plan.steps,
        bench.plan.warm_up_steps,
        seconds,
        bench.interrupted,
        bench.stopped_early,
        (
            protection.said,
            *_how_measured(executions, bench.plan, [told.variant for told in verdicts]),
            *_unmatched(asked, executions),
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
    executions: Sequence[Execution], planned: plan.Plan, variants: Sequence[Variant]
) -> list[str]:
    """What a reader should know of the steps that were measured."""
    told = []
    if any(execution.ended_early for execution in executions):
        told.append("each execution was ended after its measured steps, as if the script had left by itself")
    for variant in variants:
        if plan.times_held(variant, planned.batch) != 1.0:
            warm_up_steps, steps = planned.stretch(variant)
            told.append(
                f"{variant.name} was measured over the same samples: {steps} steps, after {warm_up_steps}"
            )
    if planned.period is not None and planned.steps < planned.period:
        told.append(
            f"epochs, validations or checkpoints come every {planned.period} steps, and {planned.steps} "
            f"were measured: to count them as often as they come, add --steps {planned.period}"
        )
    return told


def _unmatched(asked: Asked, executions: Sequence[Execution]) -> list[str]:
    if asked.metric is None or any(execution.printed for execution in executions):
        return []
    return [f"--metric {asked.metric}: nothing that was printed in the executed steps matches"]


def _check(looked: Execution, variant: Variant) -> None:
    """Raise what keeps a script from being measured at all."""
    if looked.ending is Ending.INTERRUPTED:
        raise Interrupted(looked.ended_by or signal.SIGINT)
    if looked.ending in (Ending.FAILED, Ending.OUT_OF_MEMORY):
        how = "as it is" if variant == ORIGINAL else f"with {variant.name}"
        raise BaselineFailed(f"the script fails {how}: {looked.error}", f"what it printed is in {looked.log}")
    if not looked.step_s:
        hint = f"what it printed is in {looked.log}; watch it first: perfdoctor run ..."
        raise PerfdoctorError("the script ended without a training step that could be measured", hint)
