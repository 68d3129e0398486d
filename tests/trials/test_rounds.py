from __future__ import annotations

import signal
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy import stats

from perfdoctor.errors import PerfdoctorError
from perfdoctor.model.note import Note, Remark
from perfdoctor.model.trial import Execution, ExecutionEnd, Outcome, Place, Setting, Variant
from perfdoctor.probe.trial.tweak import BITWISE, PATH
from perfdoctor.trials import lockstep
from perfdoctor.trials.plan import TrialPlan
from perfdoctor.trials.rounds import Bench
from perfdoctor.watch.signals import Stopped
from tests.support.trial_runs import WORKERS, broken, execution, tweaked

PLAN = TrialPlan(rounds=5, warm_up_steps=5, steps=50, execution_s=8.0, limit_s=100.0)
AMP = Variant((Setting("amp", ("--amp",), {}, BITWISE),))


class Scripted:
    """An executor that answers with what was made up for it: the original as given, the variant as told."""

    def __init__(self, **answers: Any) -> None:
        self.answers = answers
        self.asked: list[str] = []

    def execute(self, variant: Variant, name: str, number: int, plan: TrialPlan) -> Execution:
        self.asked.append(name)
        answer = self.answers["original" if name.endswith("base") else variant.settings[0].tweak]
        return replace(answer(number) if callable(answer) else answer, round=number)


class Silent:
    def __init__(self) -> None:
        self.said: list[Remark] = []

    def begin(self, what: str, done: int, of: int, left_s: float | None) -> None:
        self.last = (what, done, of, left_s)

    def say(self, remark: Remark) -> None:
        self.said.append(remark)

    def end(self) -> None:
        pass


class Full(Scripted):
    """The disk is full from the fourth round on."""

    def execute(self, variant: Variant, name: str, number: int, plan: TrialPlan) -> Execution:
        if number == 3:
            raise PerfdoctorError("cannot write to trials: No space left on device", "make room there")
        return super().execute(variant, name, number, plan)


def bench(executor: Scripted) -> Bench:
    return Bench(executor, Silent(), PLAN, execution())  # type: ignore[arg-type]


def noisy(step_s: float) -> Any:
    return lambda number: execution(step_s * (1.0 + 0.01 * (-1) ** number), applied=tweaked().applied)


def test_turns_are_taken_in_an_order_that_is_balanced() -> None:
    executor = Scripted(original=noisy(0.1), workers=noisy(0.099))
    bench(executor).compare([WORKERS])
    assert executor.asked[:5] == ["1-base", "1-1-workers-4", "2-1-workers-4", "2-base", "3-base"]


def test_a_variant_that_is_twice_as_fast_is_faster_and_needs_no_more_rounds_than_it_takes() -> None:
    executor = Scripted(original=noisy(0.1), workers=noisy(0.05))
    found = bench(executor)
    (verdict,) = found.compare([WORKERS])
    assert verdict.outcome is Outcome.FASTER
    assert verdict.speedup is not None
    assert verdict.speedup.low < 2.0 < verdict.speedup.high or verdict.speedup.likely == pytest.approx(2.0)
    assert found.stopped_early
    assert len(executor.asked) < 10


def test_a_variant_with_nothing_to_change_is_executed_once() -> None:
    executor = Scripted(original=noisy(0.1), workers=execution(0.1))
    (verdict,) = bench(executor).compare([WORKERS])
    assert verdict.outcome is Outcome.NO_EFFECT
    assert executor.asked == ["1-base", "1-1-workers-4"]


def test_a_variant_that_fails_is_not_tried_again_while_others_go_on() -> None:
    executor = Scripted(
        original=noisy(0.1), workers=broken(ExecutionEnd.FAILED, error="RuntimeError: no"), amp=noisy(0.101)
    )
    failed, measured = bench(executor).compare([WORKERS, AMP])
    assert (failed.outcome, failed.because) == (Outcome.FAILED, "RuntimeError: no")
    assert measured.outcome is Outcome.NO_DIFFERENCE
    assert sum(name.endswith("workers-4") for name in executor.asked) == 1


def test_running_out_of_memory_is_its_own_word() -> None:
    executor = Scripted(original=noisy(0.1), workers=broken(ExecutionEnd.OUT_OF_MEMORY, error="killed"))
    assert bench(executor).compare([WORKERS])[0].outcome is Outcome.OUT_OF_MEMORY


def test_an_interrupt_ends_everything_and_keeps_what_was_measured() -> None:
    def answer(number: int) -> Execution:
        return tweaked(0.05 + 0.001 * number) if number < 3 else broken(ExecutionEnd.INTERRUPTED)

    executor = Scripted(original=noisy(0.1), workers=answer)
    made = replace(bench(executor), plan=replace(PLAN, rounds=5))
    (verdict,) = made.compare([WORKERS])
    assert len(verdict.executions) <= 4
    assert verdict.outcome in (Outcome.FASTER, Outcome.NOT_MEASURED)


def test_what_is_left_to_do_is_told() -> None:
    executor = Scripted(original=noisy(0.1), workers=noisy(0.1))
    made = bench(executor)
    made.compare([WORKERS])
    what, done, of, left_s = made.progress.last  # type: ignore[attr-defined]
    assert what in ("original", "--workers 4")
    assert left_s == (of - done) * PLAN.execution_s


def test_a_script_that_ends_before_its_planned_steps_is_measured_over_those_it_takes() -> None:
    short = execution(0.1, ending=ExecutionEnd.TOO_SHORT, steps=30)
    executor = Scripted(original=short, workers=tweaked(0.05, steps=30))
    made = bench(executor)
    (verdict,) = made.compare([WORKERS])
    assert made.plan.steps == 30
    assert verdict.outcome is Outcome.FASTER


def test_a_variant_with_larger_batches_that_ends_early_leaves_the_original_as_many_samples() -> None:
    larger = Variant((Setting("batch-size", ("--batch-size", "64"), {"value": 64}, PATH),))
    short = tweaked(0.2, ending=ExecutionEnd.TOO_SHORT, steps=20, samples_per_s=64 / 0.2)
    executor = Scripted(original=noisy(0.1), **{"batch-size": short})
    made = replace(bench(executor), plan=replace(PLAN, batch=32.0))
    made.compare([larger])
    assert made.plan.steps == 40


def test_the_signal_that_ended_the_trial_is_known() -> None:
    def terminated(number: int) -> Execution:
        raise Stopped(signal.SIGTERM)

    stopped = broken(ExecutionEnd.INTERRUPTED, ended_by=signal.SIGINT)
    for answer, number in ((terminated, signal.SIGTERM), (stopped, signal.SIGINT)):
        made = bench(Scripted(original=noisy(0.1), workers=answer))
        (verdict,) = made.compare([WORKERS])
        assert (made.interrupted, made.ended_by) == (True, number)
        assert verdict.outcome is Outcome.NOT_MEASURED


def test_a_tweak_that_turned_itself_off_has_failed() -> None:
    hurt = tweaked(0.1, broken=("workers: TypeError: no",))
    (verdict,) = bench(Scripted(original=noisy(0.1), workers=hurt)).compare([WORKERS])
    assert (verdict.outcome, verdict.because) == (
        Outcome.FAILED,
        "it turned itself off: workers: TypeError: no",
    )


def test_what_withdrew_takes_no_further_round() -> None:
    gone = tweaked(0.1, withdrawn=(Place("workers", "DataLoader", because="it streams", step=3),))
    (verdict,) = bench(Scripted(original=noisy(0.1), workers=gone)).compare([WORKERS])
    assert verdict.outcome is Outcome.WITHDRAWN
    assert len(verdict.executions) == 1


def test_a_round_whose_original_failed_is_not_counted() -> None:
    def original(number: int) -> Execution:
        return broken(ExecutionEnd.FAILED, step_s=0.5, error="killed") if number == 1 else execution(0.1)

    (verdict,) = bench(Scripted(original=original, workers=noisy(0.1))).compare([WORKERS])
    assert verdict.speedup is not None
    assert verdict.speedup.likely == pytest.approx(1.0, abs=0.02)


def test_samples_are_compared_where_a_step_holds_more_of_them() -> None:
    def larger(number: int) -> Execution:
        return tweaked(0.15 + 0.001 * (number % 2), samples_per_s=64 / 0.15)

    (verdict,) = bench(Scripted(original=noisy(0.1), workers=larger)).compare([WORKERS])
    assert verdict.per == "sample"
    assert verdict.outcome is Outcome.FASTER
    assert verdict.speedup is not None
    assert verdict.speedup.likely == pytest.approx(4 / 3, rel=0.05)


def test_what_was_measured_before_the_disk_was_full_is_judged() -> None:
    made = bench(Full(original=lambda number: execution(0.1 * 1.1**number), workers=noisy(0.1)))
    (verdict,) = made.compare([WORKERS])
    assert not made.interrupted
    error = "cannot write to trials: No space left on device"
    assert made.trouble == [Note("trial-ended", {"error": error, "hint": "make room there"})]
    assert len(verdict.executions) == 3
    assert verdict.speedup is not None


class Slow(Scripted):
    """Each execution takes so many seconds of a clock that only this one moves."""

    now_s = 100.0

    def __init__(self, seconds: float, **answers: Any) -> None:
        super().__init__(**answers)
        self.seconds = seconds

    def execute(self, variant: Variant, name: str, number: int, plan: TrialPlan) -> Execution:
        self.now_s += self.seconds
        return super().execute(variant, name, number, plan)


class Timed(Slow):
    """Each execution takes as long as its step."""

    def execute(self, variant: Variant, name: str, number: int, plan: TrialPlan) -> Execution:
        made = super().execute(variant, name, number, plan)
        self.now_s += made.step_s or 0.0
        return made


@pytest.mark.parametrize(("seconds", "rounds"), [(4.0, 9), (8.0, 7), (10.0, 6), (20.0, 3), (30.0, 3)])
def test_no_round_begins_that_would_not_end_in_time_unless_it_is_one_of_the_least(
    seconds: float, rounds: int
) -> None:
    executor = Slow(seconds, original=execution(), workers=lambda number: tweaked(0.07 + 0.06 * (number % 2)))
    found = bench(executor)
    found.plan, found.clock = replace(PLAN, rounds=9, budget_s=120.0), lambda: executor.now_s
    found.compare([WORKERS])
    assert not found.stopped_early  # that is said where they could tell no more
    spent_s = executor.now_s - Slow.now_s
    assert found.rounds == rounds
    assert spent_s <= 1.1 * found.plan.budget_s or rounds == 3


@pytest.mark.parametrize(("seconds", "rounds"), [(4.0, 9), (10.0, 6)])
def test_time_that_the_expected_rounds_leave_is_for_further_ones(seconds: float, rounds: int) -> None:
    executor = Slow(seconds, original=execution(), workers=lambda number: tweaked(0.07 + 0.06 * (number % 2)))
    found = bench(executor)
    found.plan = replace(PLAN, rounds=3, most_rounds=9, budget_s=120.0)
    found.clock = lambda: executor.now_s
    found.compare([WORKERS])
    assert found.rounds == rounds
    _, done, of, left_s = found.progress.last  # type: ignore[attr-defined]
    assert done < of
    assert left_s > 0


def test_one_slow_round_keeps_no_later_one_from_beginning() -> None:
    class Held(Slow):
        def execute(self, variant: Variant, name: str, number: int, plan: TrialPlan) -> Execution:
            self.seconds = 25.0 if number == 0 else 5.0
            return super().execute(variant, name, number, plan)

    executor = Held(5.0, original=execution(), workers=lambda number: tweaked(0.07 + 0.06 * (number % 2)))
    found = bench(executor)
    found.plan, found.clock = replace(PLAN, rounds=9, budget_s=120.0), lambda: executor.now_s
    found.compare([WORKERS])
    assert found.rounds == 8  # 50 s, and 10 s each


@pytest.mark.parametrize(
    ("turns", "rounds", "then_s", "stops"),
    [
        (0, 2, 1_000.0, False), (0, 3, 110.0, False), (0, 3, 130.0, True),
        (20, 0, 1_000.0, False), (20, 1, 170.0, False), (20, 2, 190.0, True), (20, 3, 130.0, True),
    ],
)  # fmt: skip
def test_too_few_rounds_for_a_verdict_get_more_time(
    turns: int, rounds: int, then_s: float, stops: bool
) -> None:
    found = bench(Scripted(original=execution()))
    found.plan = replace(PLAN, turns=turns, budget_s=120.0)
    assert found._has_to_stop(then_s, rounds) is stops


def test_where_the_clock_ends_it_the_last_look_spends_what_is_left_of_the_five_percent() -> None:
    executor = Slow(
        20.0, original=execution(), workers=lambda number: tweaked(0.1 / (1.05, 1.06, 1.08)[number])
    )
    found = bench(executor)
    found.plan, found.clock = replace(PLAN, budget_s=120.0), lambda: executor.now_s
    (verdict,) = found.compare([WORKERS])
    assert found.rounds == 3 < PLAN.rounds
    assert verdict.outcome is Outcome.FASTER


def timed(seconds: np.ndarray) -> Outcome:
    """The outcome where each execution takes so long, and the clock allows four rounds or so."""
    executor = Timed(
        0.0, original=lambda number: execution(seconds[number, 0]), workers=lambda n: tweaked(seconds[n, 1])
    )
    found = bench(executor)
    found.plan = replace(PLAN, rounds=9, budget_s=85.0)
    found.clock = lambda: executor.now_s
    return found.compare([WORKERS])[0].outcome


def test_equal_programs_are_called_different_in_at_most_five_percent_where_the_clock_ends_it() -> None:
    random = np.random.default_rng(11)
    trials = 1_000
    outcomes = [timed(10.0 * np.exp(random.normal(0.0, 0.05, (9, 2)))) for _ in range(trials)]
    alarms = sum(outcome is not Outcome.NO_DIFFERENCE for outcome in outcomes)
    assert alarms <= stats.binom.ppf(0.999, trials, 0.05)


# ---------------------------------------------------------------- trainings that take turns


def alive_at_once(monkeypatch: pytest.MonkeyPatch, executor: Scripted, *first: Execution) -> Bench:
    """A bench of trainings that take turns, whose first round ends as given, and later ones well."""
    ends = iter([first])

    def execute(_: Any, sides: Any, number: int, *more: Any) -> Any:
        usual = (noisy_turns(0.1 if variant.name == "original" else 0.05, number) for variant, _ in sides)
        return [replace(each, round=number) for each in next(ends, usual)], None

    monkeypatch.setattr(lockstep, "execute", execute)
    in_turns = replace(PLAN, turns=4)
    return replace(bench(executor), plan=in_turns, whole=PLAN)


def noisy_turns(step_s: float, number: int) -> Execution:
    made: Execution = noisy(step_s)(number)
    assert made.step_s is not None
    return replace(made, turns_s=(made.step_s,) * 4)


def test_a_variant_that_fails_before_the_others_first_step_fails_alone(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    failed = broken(ExecutionEnd.FAILED, error="RuntimeError: no")
    cut = broken(ExecutionEnd.NO_STEPS)
    executor = Scripted(original=noisy(0.1), workers=failed, amp=noisy(0.05))
    made = alive_at_once(monkeypatch, executor, cut, failed, cut)
    verdicts = made.compare([WORKERS, AMP])
    assert made.notes == []
    assert made.plan.turns
    assert [each.outcome for each in verdicts] == [Outcome.FAILED, Outcome.FASTER]
    assert len(executor.asked) == 1


def test_where_none_failed_who_made_no_step_is_executed_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    stuck, cut = broken(ExecutionEnd.NO_STEPS), broken(ExecutionEnd.TOO_SHORT)
    executor = Scripted(original=noisy(0.1), workers=noisy(0.05))
    made = alive_at_once(monkeypatch, executor, cut, stuck)
    (verdict,) = made.compare([WORKERS])
    because = "--workers 4 fails beside another: no training step"
    assert made.notes == [Note("whole-executions", {"because": because})]
    assert verdict.outcome is Outcome.FASTER


def test_what_was_decided_in_turns_stays_decided_where_they_are_given_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    executor = Scripted(original=noisy(0.1), workers=noisy(0.1), amp=noisy(0.09))
    made = alive_at_once(monkeypatch, executor)

    def execute(_: Any, sides: Any, number: int, *more: Any) -> Any:
        if number == 4:
            raise lockstep.Apart("--amp did not go on after it had rested")
        costs = {"original": 0.1, WORKERS.name: 0.05, AMP.name: 0.07 + 0.06 * (number % 2)}
        return [replace(noisy_turns(costs[variant.name], number), round=number) for variant, _ in sides], None

    monkeypatch.setattr(lockstep, "execute", execute)
    decided, parted = made.compare([WORKERS, AMP])
    assert decided.outcome is Outcome.FASTER
    assert decided.speedup is not None
    assert decided.speedup.likely == pytest.approx(2.0)
    assert parted.outcome is Outcome.FASTER
    assert not any("workers" in name for name in executor.asked)
    assert {len(each.turns_s) for each in parted.executions} == {0}
    assert [len(each.turns_s) for each in made.originals] == [4, 4, 4, 4, 0, 0, 0]


def test_a_round_whose_turns_were_disturbed_is_left_out_and_those_before_it_count(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = alive_at_once(monkeypatch, Scripted(original=noisy(0.1), workers=noisy(0.05)))

    def execute(_: Any, sides: Any, number: int, *more: Any) -> Any:
        cut = broken(ExecutionEnd.TOO_SHORT)
        ends = [noisy_turns(0.1, number), cut if number == 1 else noisy_turns(0.05, number)]
        return [replace(each, round=number) for each in ends], None

    monkeypatch.setattr(lockstep, "execute", execute)
    (verdict,) = made.compare([WORKERS])
    assert verdict.outcome is Outcome.FASTER
    assert made.notes == []
    assert [each.round for each in verdict.executions][:2] == [0, 2]


def no_room(number: int) -> Execution:
    raise PerfdoctorError("cannot write to trials: No space left on device", "make room there")


@pytest.mark.parametrize("alone", [broken(ExecutionEnd.INTERRUPTED, ended_by=signal.SIGINT), no_room])
def test_what_ends_the_trial_while_one_is_executed_alone_keeps_what_was_measured(
    monkeypatch: pytest.MonkeyPatch, alone: Any
) -> None:
    made = alive_at_once(monkeypatch, Scripted(original=noisy(0.1), workers=alone))

    def execute(_: Any, sides: Any, number: int, *more: Any) -> Any:
        ends = [noisy_turns(0.1, number), replace(noisy_turns(0.05, number))]
        if number == 3:
            ends = [broken(ExecutionEnd.TOO_SHORT), broken(ExecutionEnd.FAILED, error="killed")]
        return [replace(each, round=number) for each in ends], None

    monkeypatch.setattr(lockstep, "execute", execute)
    monkeypatch.setattr(Bench, "_goes_on", lambda *_: True)
    (verdict,) = made.compare([WORKERS])
    assert verdict.outcome is Outcome.FASTER
    assert made.notes == []
    assert (made.ended_by == signal.SIGINT) or made.trouble
