from __future__ import annotations

import math
from dataclasses import replace

import pytest

from perfdoctor.errors import PerfdoctorError
from perfdoctor.model.trial import LEAST_ROUNDS, Variant
from perfdoctor.trials import plan
from perfdoctor.trials.settings import flags, tweak_catalogue


def make(**given: object) -> plan.TrialPlan:
    usual = {
        "step_s": 0.05,
        "start_s": 3.0,
        "warm_up_steps": 5,
        "longest_steps": None,
        "variants": 1,
        "spent_s": 10.0,
    }
    return plan.make(**{**usual, **given})  # type: ignore[arg-type]


def test_one_tweak_on_steps_of_fifty_milliseconds_is_done_within_ninety_seconds() -> None:
    made = make()
    assert 10.0 + made.rounds * 2 * made.execution_s <= 90.0
    assert made.steps >= 20


def test_a_slow_start_leaves_fewer_steps_but_never_less_than_the_least() -> None:
    assert make(start_s=60.0).steps == plan.LEAST_S / 0.05 == 20
    assert make(start_s=60.0, step_s=1.0).steps == plan.LEAST_STEPS


def test_more_variants_get_more_time_by_default() -> None:
    assert make(variants=4).steps == pytest.approx(make().steps, rel=0.4)


@pytest.mark.shows("budgets")
def test_seconds_bound_the_whole_trial() -> None:
    made = make(seconds=200.0)
    assert 10.0 + made.rounds * 2 * made.execution_s == pytest.approx(200.0, rel=0.01)


def test_rounds_that_time_does_not_hold_are_not_planned() -> None:
    assert [make(seconds=seconds, start_s=15.0).rounds for seconds in (5.0, 25.0, 200.0)] == [3, 3, 5]
    assert make(seconds=25.0, rounds=8, start_s=15.0).rounds == 3


def test_time_that_is_left_after_the_expected_rounds_is_for_further_ones() -> None:
    made = make()
    assert (made.rounds, made.last_round, made.budget_s) == (5, plan.MOST_ROUNDS, plan.BUDGET_S - 10.0)
    assert make(seconds=200.0).last_round == plan.MOST_ROUNDS
    assert make(rounds=4).last_round == make(rounds=4, seconds=200.0).last_round == 4
    turns = take_turns()
    assert turns is not None
    assert (turns.rounds, turns.last_round) == (plan.STARTS, plan.MOST_STARTS)


def test_rounds_that_take_longer_than_a_trial_usually_does_all_come_and_no_more() -> None:
    made = make(start_s=60.0)
    assert (made.last_round, made.budget_s) == (made.rounds, math.inf)


def test_what_hangs_before_its_first_step_is_given_little_more_than_the_script_took_to_it() -> None:
    made = make(begun_s=8.0)
    assert made.first_step_s == plan.PATIENCE * 8.0 + plan.SLACK_S
    assert make(begun_s=1000.0).first_step_s == make().first_step_s == plan.FIRST_STEP_S
    in_turns = {
        "most_held": 1.0,
        "processes": 1,
        "cores": 2.0,
        "rounds": None,
        "steps": None,
        "seconds": None,
    }
    usual = {"step_s": 0.05, "start_s": 3.0, "longest_steps": None, "variants": 1, "spent_s": 10.0}
    beside = plan.in_turns(made, **usual, **in_turns)  # type: ignore[arg-type]
    assert beside is not None
    assert beside.first_step_s == 2 * made.first_step_s  # both start at once


def test_steps_and_rounds_that_were_asked_for_are_kept() -> None:
    made = make(steps=70, rounds=4)
    assert (made.steps, made.rounds) == (70, 4)


def test_no_more_steps_are_planned_than_the_script_takes() -> None:
    assert make(longest_steps=40).steps == 35


def test_ranks_that_start_at_once_on_few_cores_take_longer_to_start() -> None:
    two = take_turns(processes=2)
    alone, crowded = take_turns(processes=2, cores=8.0), take_turns(processes=8, cores=4.0)
    assert two is not None
    assert alone is not None
    assert crowded is not None
    assert alone == take_turns()
    assert two.rounds < alone.rounds
    assert two.execution_s > alone.execution_s
    assert crowded == two  # alone they had half a core each already


def test_a_script_of_few_steps_is_too_short() -> None:
    with pytest.raises(PerfdoctorError, match="takes 14 steps: too short"):
        make(longest_steps=14)
    assert make(longest_steps=15).steps == plan.LEAST_STEPS


def test_an_execution_may_take_much_longer_than_expected_before_it_is_ended() -> None:
    assert make().limit_s > 5 * make().execution_s


def test_a_whole_epoch_is_measured_where_that_can_be_paid_for() -> None:
    assert make(start_s=60.0, step_s=1.0).steps == 10
    assert make(start_s=60.0, step_s=1.0, period=15).steps == 15
    assert make(start_s=60.0, step_s=1.0, period=4).steps == 12


def test_an_epoch_that_costs_several_times_the_budget_is_not_measured_whole() -> None:
    assert make(period=100_000).steps == make().steps


def test_seconds_that_were_given_are_kept_and_rounds_are_given_up_for_a_whole_epoch() -> None:
    for period, rounds, steps in ((70, 5, 70), (110, 4, 110), (180, 3, 180)):
        made = make(seconds=90.0, period=period)
        assert (made.rounds, made.steps) == (rounds, steps)
        assert 10.0 + rounds * 2 * made.execution_s <= 90.0
    assert make(seconds=90.0, period=200) == replace(make(seconds=90.0), period=200)


def test_where_there_is_time_for_it_whole_epochs_are_measured() -> None:
    assert make(period=20).steps == make().steps // 20 * 20
    assert make(longest_steps=40, period=20).steps == 20
    assert make(steps=50, period=20).steps == 40
    assert make(steps=15, period=20).steps == 15


# ---------------------------------------------------------------- other batches


def resized(*words: str) -> Variant:
    return Variant(flags.read(words, tweak_catalogue.tweaks()))


@pytest.mark.parametrize(
    ("words", "batch", "held"),
    [
        (("--batch-size", "64"), 32.0, 2.0),
        (("--batch-size", "16"), 32.0, 0.5),
        (("--batch-size", "64"), None, 1.0),
        (("--accumulate", "4"), None, 4.0),
        (("--batch-size", "64", "--accumulate", "4", "--amp"), 32.0, 8.0),
        (("--workers", "4"), 32.0, 1.0),
    ],
)
def test_how_many_samples_a_step_holds_is_told_by_batches_and_accumulation(words, batch, held) -> None:
    assert plan.times_held(resized(*words), batch) == held


def test_all_are_measured_over_the_same_samples() -> None:
    made = make(batch=32.0, most_held=4.0, steps=80)
    assert (made.warm_up_steps, made.steps) == (20, 80)  # the variant needs five steps of its own to settle
    assert made.stretch(resized("--batch-size", "128")) == (5, 20)
    assert made.stretch(resized("--batch-size", "64")) == (10, 40)
    assert made.stretch(resized("--batch-size", "16")) == (40, 160)
    assert made.stretch(resized("--workers", "2")) == made.stretch(Variant()) == (20, 80)


def test_the_original_takes_more_steps_where_larger_ones_would_be_too_few() -> None:
    made = make(start_s=60.0, step_s=1.0, batch=32.0, most_held=4.0)
    assert made.stretch(resized("--batch-size", "128")) == (5, plan.LEAST_STEPS)
    assert make(start_s=60.0, step_s=1.0, batch=32.0, most_held=0.5).steps == plan.LEAST_STEPS


def test_a_batch_that_the_script_has_too_few_samples_for_is_no_reason_not_to_measure_others() -> None:
    made = make(longest_steps=60, batch=32.0, most_held=64.0)
    assert made.warm_up_steps + made.steps <= 60
    assert made.stretch(resized("--batch-size", "64"))[1] >= plan.LEAST_STEPS


# ---------------------------------------------------------------- trainings that take turns


def take_turns(period: int | None = None, steps: int | None = None, **given: object) -> plan.TrialPlan | None:
    usual = {
        "step_s": 0.05,
        "start_s": 3.0,
        "longest_steps": None,
        "most_held": 1.0,
        "variants": 1,
        "processes": 1,
        "cores": 2.0,
        "spent_s": 10.0,
        "rounds": None,
        "steps": steps,
        "seconds": None,
    }
    return plan.in_turns(make(period=period, steps=steps), **{**usual, **given})  # type: ignore[arg-type]


def test_nine_fresh_starts_fit_into_three_minutes() -> None:
    made = take_turns()
    assert made is not None
    assert (made.rounds, made.turns, made.turn_s) == (plan.STARTS, 5, 1.0)
    assert 10.0 + made.rounds * made.execution_s <= 180.0


@pytest.mark.parametrize(("asked", "planned"), [(3, 3), (20, plan.STARTS)])
def test_no_more_rounds_are_planned_than_there_is_time_for(asked: int, planned: int) -> None:
    made = take_turns(rounds=asked)
    assert made is not None
    assert (made.rounds, made.last_round) == (planned, asked)


@pytest.mark.parametrize("seconds", [60.0, 300.0])
def test_seconds_bound_all_starts_together(seconds: float) -> None:
    made = take_turns(seconds=seconds)
    assert made is not None
    assert 0.6 * seconds < 10.0 + made.rounds * made.execution_s <= seconds


@pytest.mark.parametrize("given", [{"start_s": 30.0}, {"seconds": 60.0}])
def test_of_starts_and_turns_the_starts_are_what_little_time_is_spent_on(given: dict[str, float]) -> None:
    made = take_turns(**given)
    assert made is not None
    assert 4 <= made.rounds < plan.STARTS
    assert made.turns < 4


def test_long_turns_are_fewer_between_more_fresh_starts() -> None:
    made = take_turns(period=60)
    assert made is not None
    assert made.turn_s == 3.0
    assert (made.turns, made.rounds) == (plan.LEAST_TURNS, 8)


def test_a_script_of_few_steps_is_started_more_often() -> None:
    made = take_turns(longest_steps=60)
    assert made is not None
    assert made.turns == plan.LEAST_TURNS
    assert plan.STARTS < made.rounds <= plan.MOST_STARTS


def test_steps_that_turns_do_not_hold_are_measured_in_whole_executions() -> None:
    usual = take_turns()
    assert usual is not None
    assert take_turns(steps=usual.steps) == usual
    assert take_turns(steps=usual.steps + 1) is None


def test_a_turn_of_several_optimizers_takes_a_step_more_of_a_script_of_few_steps() -> None:
    turns = [take_turns(longest_steps=55, spare_updates=spare) for spare in (0, 1)]
    assert [made and made.turns for made in turns] == [2, None]


def test_a_turn_holds_whole_epochs_where_they_are_short() -> None:
    made = take_turns(period=60)
    assert made is not None
    assert made.steps == made.turns * 60
    assert made.rounds >= LEAST_ROUNDS


def test_a_script_of_two_epochs_takes_turns_that_hold_one_together() -> None:
    made = take_turns(period=50, longest_steps=100, seconds=60.0)
    assert made is not None
    assert (made.turns, made.turn_s, made.steps) == (3, 1.0, 60)
    assert take_turns(period=90, longest_steps=100) is None


@pytest.mark.parametrize(
    "given", [{"start_s": 70.0}, {"step_s": 10.0}, {"longest_steps": 30}, {"seconds": 20.0}]
)
def test_too_little_time_or_too_few_steps_for_three_starts_of_two_turns_is_said(
    given: dict[str, object],
) -> None:
    assert take_turns(**given) is None
