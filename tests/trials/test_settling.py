"""From when each tweak pays, and that a trial gets there on both sides, or gives no verdict and says why."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any, NamedTuple

import pytest

from perfdoctor.model.note import Note
from perfdoctor.model.trial import ORIGINAL, Execution, Outcome, Setting, Variant
from perfdoctor.runs.types import RunRecords
from perfdoctor.trials import measure, settling, trial
from perfdoctor.trials.auto import Candidate, Walk
from perfdoctor.trials.plan import times_held
from perfdoctor.trials.request import Request
from perfdoctor.trials.rounds import Bench
from perfdoctor.trials.settings import flags, tweak_catalogue
from perfdoctor.tweaks import (
    AT_ONCE,
    BITWISE,
    COMPILED,
    EPOCH_BORDERS,
    SECOND_EPOCH,
    VALIDATION,
    Count,
)
from tests.support.records import MS, records, rows, update
from tests.support.trial_runs import execution, tweaked


class From(NamedTuple):
    """From when a tweak pays: its kind, what it only looks on at, and whether an epoch is unlike."""

    kind: str
    why: str
    waits: int = 0
    first_epoch: bool = False
    passes: int = 0


CALLS = "it acts on every call from the first one on"
QUEUES = "it changes how many batches wait ready: once those of before are used up"
SYNCS = "it acts on every gradient sync from the first one on"
PAYS = {
    "accumulate": From(AT_ONCE, "the first update is made as before", waits=1),
    "amp": From(AT_ONCE, "the scale of fp16 is found within the usual warm-up"),
    "batch-size": From(AT_ONCE, "every batch from the first one on"),
    "cache-dataset": From(SECOND_EPOCH, "the first epoch fills the cache", first_epoch=True),
    "channels-last": From(AT_ONCE, "parameters are converted before the first call"),
    "compile": From(COMPILED, "its first steps compile, and once more for a smaller batch", first_epoch=True),
    "cudnn-benchmark": From(
        COMPILED, "a new shape is searched for, a smaller batch as well", first_epoch=True
    ),
    "ddp-bucket-mb": From(AT_ONCE, SYNCS),
    "ddp-compress": From(AT_ONCE, SYNCS),
    "ddp-static-graph": From(AT_ONCE, "the first pass shows the graph: the usual warm-up holds it"),
    "drop-conv-bias": From(AT_ONCE, "two backward passes prove that the bias is subtracted again", waits=2),
    "float32": From(AT_ONCE, CALLS),
    "fused-optimizer": From(AT_ONCE, "optimizers are switched before their first step"),
    "gc-freeze": From(AT_ONCE, "objects are frozen after the third update", waits=3),
    "no-compile": From(AT_ONCE, "the original compiles, as it did in the calibration run", first_epoch=True),
    "no-debug": From(AT_ONCE, "a profiler may record ten updates before it is stopped", waits=10),
    "no-grad-eval": From(
        VALIDATION, "only passes in eval mode change, after three of a line", first_epoch=True, passes=3
    ),
    "no-sync": From(AT_ONCE, "the pattern of passes and updates is learned within ten updates", waits=10),
    "no-validate-args": From(AT_ONCE, "the first distribution turns the checks off for all"),
    "non-blocking": From(AT_ONCE, CALLS),
    "persistent-workers": From(EPOCH_BORDERS, "workers start where epochs begin"),
    "pin-memory": From(AT_ONCE, QUEUES),
    "prefetch": From(AT_ONCE, QUEUES),
    "replay-batches": From(AT_ONCE, "eight batches are kept first, the one before training is not", waits=9),
    "tf32": From(AT_ONCE, CALLS),
    "threads": From(AT_ONCE, CALLS),
    "workers": From(AT_ONCE, QUEUES),
    "zero-grad-none": From(AT_ONCE, CALLS),
}
TWEAKS = {tweak.id: tweak for tweak in tweak_catalogue.tweaks()}
STEP_S = 0.02
SEEN = 300  # steps, in the six seconds of a calibration run
BATCH = 8
AT_BORDERS = (EPOCH_BORDERS, VALIDATION)


class Calibrated:
    """An executor whose calibration run recorded what is given, and whose executions are made up."""

    protection = None

    def __init__(self, recorded: RunRecords, answer: Callable[[Variant, Any], Execution] | None = None):
        self.recorded = recorded
        self.answer = answer
        self.executed = 0

    def calibrate(self, variant: Variant) -> tuple[Execution, RunRecords]:
        return execution(STEP_S, ended_early=True), self.recorded

    def execute(self, variant: Variant, name: str, number: int, plan: Any) -> Execution:
        self.executed += 1
        assert self.answer is not None
        return replace(self.answer(variant, plan), round=number)


class Silent:
    def begin(self, *what: Any) -> None: ...

    def say(self, remark: Any) -> None: ...

    def end(self) -> None: ...


def trained(epoch: int, tells_length: bool = True) -> RunRecords:
    """Six seconds of training with two workers, in epochs of so many steps."""
    table = rows([update(STEP_S * 1e3, samples=BATCH, batches=1)] * SEEN)
    items = BATCH * epoch if tells_length else None
    loader = {"event": "loader", "id": 1, "num_workers": 2, "prefetch_factor": 2}
    begins = [
        {"event": "epoch", "loader": 1, "begin_ns": int(at) + MS, "items": items}
        for at in table["begin_ns"][::epoch]
    ]
    return records(table, events=[loader, *begins])


def variant(tweak: str) -> Variant:
    values = {flags.VALUE: 16} if isinstance(TWEAKS[tweak].takes, Count) else {}
    return Variant((Setting(tweak, (f"--{tweak}",), values, BITWISE),))


def planned(
    tweak: str,
    recorded: RunRecords,
    monkeypatch: pytest.MonkeyPatch,
    seconds: float | None = None,
    steps: int | None = None,
    answer: Callable[[Variant, Any], Execution] | None = None,
) -> tuple[Bench, Variant]:
    """The bench of a trial of one tweak, planned as every trial is."""
    monkeypatch.setattr(trial.lockstep, "obstacle", lambda *sides: None)
    monkeypatch.setattr(trial, "_executor", lambda request: Calibrated(recorded, answer))
    tried = variant(tweak)
    request = Request(("train.py",), (tried,), seconds=seconds, steps=steps)
    bench, _ = trial._prepare(request, Silent(), trial.SideBySide((tried,), None))
    return bench, tried


def test_every_tweak_says_from_when_it_pays() -> None:
    declared = {tweak: tweak_catalogue.declared(tweak) for tweak in TWEAKS}
    assert {
        tweak: (each.pays, each.waits, each.first_epoch, each.passes) for tweak, each in declared.items()
    } == {tweak: (each.kind, each.waits, each.first_epoch, each.passes) for tweak, each in PAYS.items()}


@pytest.mark.parametrize("tweak", TWEAKS)
def test_both_sides_get_there_before_anything_is_measured(
    tweak: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    epoch = 20
    bench, tried = planned(tweak, trained(epoch), monkeypatch)
    assert bench.plan.turns
    assert bench.out_of_reach(tried) is None
    queued = {"workers": 16 * 2, "prefetch": 2 * 16}.get(tweak, 2 * 2)
    for side in (ORIGINAL, tried):
        held = times_held(side, BATCH)
        warm_up_steps, steps = bench.plan.stretch(side)
        assert warm_up_steps > PAYS[tweak].waits + queued / held
        if PAYS[tweak].first_epoch:
            assert warm_up_steps * held >= epoch + measure.LEAST_WARM_UP
        turn_steps = steps / bench.plan.turns * held
        assert turn_steps % epoch == 0  # as many epochs begin in each turn
        if PAYS[tweak].kind in AT_BORDERS:
            assert turn_steps >= epoch


@pytest.mark.parametrize("tweak", [each for each in TWEAKS if PAYS[each].kind in AT_BORDERS])
def test_turns_hold_whole_epochs_of_which_none_was_over_in_the_calibration_run(
    tweak: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench, tried = planned(tweak, trained(350), monkeypatch)
    assert bench.out_of_reach(tried) is None
    assert bench.plan.steps == 350 * bench.plan.turns


@pytest.mark.parametrize("tweak", TWEAKS)
def test_an_epoch_that_is_too_long_leaves_no_verdict_where_it_is_needed(
    tweak: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench, tried = planned(tweak, trained(3_000), monkeypatch)
    why = bench.out_of_reach(tried)
    if PAYS[tweak].kind not in (SECOND_EPOCH, *AT_BORDERS):
        assert why is None
        return
    (verdict,) = bench.compare([tried])
    assert verdict.outcome is Outcome.NOT_MEASURED
    assert verdict.because == why
    assert bench.executor.executed == 0  # type: ignore[attr-defined]
    hint = re.fullmatch(r"--[a-z-]+ .* 3,000 steps, about 60 s: perfdoctor try --seconds (\d+)", why or "")
    assert hint is not None
    later, _ = planned(tweak, trained(3_000), monkeypatch, seconds=float(hint[1]))
    assert later.out_of_reach(tried) is None


@pytest.mark.parametrize("tweak", [each for each in TWEAKS if PAYS[each].kind in (SECOND_EPOCH, *AT_BORDERS)])
def test_where_epochs_have_no_known_length_there_is_no_verdict(
    tweak: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench, tried = planned(tweak, trained(3_000, tells_length=False), monkeypatch)
    assert math.isinf(bench.epoch or 0)
    assert (bench.out_of_reach(tried) or "").endswith("its dataset does not tell")


@pytest.mark.parametrize("tweak", [each for each in TWEAKS if PAYS[each].kind == COMPILED])
def test_what_compiles_for_longer_than_the_originals_warm_up_is_measured_again_after_that(
    tweak: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    slow = 3_000

    def answer(side: Variant, plan: Any) -> Execution:
        each = {"warm_up_steps": plan.warm_up_steps, "slow_steps": slow if side.settings else 0}
        return tweaked(0.02, **each) if side.settings else execution(0.02, **each)

    bench, tried = planned(tweak, trained(3_000), monkeypatch, answer=answer)
    bench.plan, bench.whole = replace(bench.whole or bench.plan, rounds=3), None
    (verdict,) = bench.compare([tried])
    assert verdict.outcome is Outcome.NO_DIFFERENCE
    assert len(verdict.executions) == len(bench.originals) == 3
    assert min(each.warm_up_steps for each in (*verdict.executions, *bench.originals)) >= slow
    assert bench.executor.executed == 8  # type: ignore[attr-defined]


def test_a_script_that_is_over_before_a_longer_warm_up_is_measured_as_planned(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def answer(side: Variant, plan: Any) -> Execution:
        return (tweaked if side.settings else execution)(0.02, warm_up_steps=5, slow_steps=SEEN - 10)

    bench, tried = planned("compile", trained(3_000), monkeypatch, answer=answer)
    bench.plan, bench.whole = replace(bench.whole or bench.plan, rounds=3), None
    bench.longest_steps = SEEN
    bench.compare([tried])
    assert bench.executor.executed == 6  # type: ignore[attr-defined]


def test_more_steps_than_turns_hold_are_executed_whole_and_that_is_said(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bench, _ = planned("tf32", trained(3_000), monkeypatch, steps=3_000)
    assert (bench.plan.turns, bench.plan.steps) == (0, 3_000)
    assert bench.notes == [Note("whole-executions", {"because": "--steps asks for more than turns hold"})]
    few, _ = planned("tf32", trained(3_000), monkeypatch, steps=10)
    assert few.notes == [Note("whole-executions", {"because": "its steps are too few, or too long"})]


def walked(monkeypatch: pytest.MonkeyPatch, seconds: float) -> Bench:
    """The bench of a walk through five candidates, after a calibration run of 55 seconds."""
    now_s = iter((0.0, 55.0))
    monkeypatch.setattr(trial, "time", SimpleNamespace(monotonic=lambda: next(now_s, 55.0)))
    monkeypatch.setattr(trial.lockstep, "obstacle", lambda *sides: None)
    monkeypatch.setattr(trial, "_executor", lambda request: Calibrated(trained(3_000)))
    walk = Walk([Candidate(variant("tf32").settings)] * 5, comparisons=11)
    request = Request(("train.py",), (), auto=True, seconds=seconds)
    return trial._prepare(request, Silent(), walk)[0]


def test_what_the_calibration_run_took_is_taken_from_a_walks_time_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bench = walked(monkeypatch, 1_155.0)
    assert bench.plan.turns
    assert bench.plan.budget_s == pytest.approx(100.0)


def test_where_time_is_too_short_for_turns_it_says_how_much_would_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (note,) = walked(monkeypatch, 255.0).notes
    because = str(note.values["because"])
    assert because.startswith("too little time for turns: --seconds ")
    assert walked(monkeypatch, float(because.split()[-1])).plan.turns


def test_whole_executions_of_a_walk_are_planned_two_for_each_comparison(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    bench = walked(monkeypatch, 1_155.0)
    assert bench.whole is not None
    assert 11 * bench.whole.rounds * 2 * bench.whole.execution_s == pytest.approx(1_100.0, rel=0.02)


def validated(*after: int, passes: int = 0) -> RunRecords:
    """Training without a known end of epochs that validates with these steps, on so many loaded batches."""
    usual, validating = {"batches": 1}, {"batches": 1 + passes, "validation": 5.0}
    steps = [
        update(STEP_S * 1e3, samples=BATCH, **(validating if index in after else usual))
        for index in range(SEEN)
    ]
    return records(rows(steps))


@pytest.mark.parametrize("tweak", ["compile", "cudnn-benchmark"])
def test_what_the_first_validation_compiles_is_not_measured(
    tweak: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench, tried = planned(tweak, validated(79, 159, 239), monkeypatch)
    assert bench.out_of_reach(tried) is None
    assert bench.plan.warm_up_steps >= 80 + measure.LEAST_WARM_UP


@pytest.mark.parametrize(
    ("after", "passes", "settled"),
    [
        ((79, 159, 239), 0, 240),  # no loader tells how many: it may be one in each
        ((79, 159, 239), 1, 240),
        ((79, 159, 239), 2, 160),
        ((79, 159, 239), 3, 80),
        ((79,), 1, 240),  # later ones are to be expected after as many steps
    ],
)
def test_validations_that_a_tweak_only_looks_on_at_are_not_measured(
    after: tuple[int, ...], passes: int, settled: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    bench, tried = planned("no-grad-eval", validated(*after, passes=passes), monkeypatch)
    assert bench.out_of_reach(tried) is None
    assert settled + 2 * measure.LEAST_WARM_UP >= bench.plan.warm_up_steps >= settled + measure.LEAST_WARM_UP


def test_validations_that_a_script_has_too_few_of_are_looked_on_at_while_it_is_measured() -> None:
    tried, calibration = [variant("no-grad-eval")], execution(STEP_S, ended_early=True)
    for longest_steps, settled in ((300, 240), (250, 160), (90, 0)):
        found = settling.settled_after(validated(79, passes=1), tried, calibration, math.inf, longest_steps)
        assert found == settled + measure.LEAST_WARM_UP


def test_a_script_that_validates_once_before_it_ends_is_measured_before_that() -> None:
    whole = execution(STEP_S, losses=(1.0,) * SEEN)
    for at, settled in ((SEEN - 1, measure.LEAST_WARM_UP), (99, 100 + measure.LEAST_WARM_UP)):
        assert settling.settled_after(validated(at), [variant("compile")], whole, math.inf) == settled
