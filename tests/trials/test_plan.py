from __future__ import annotations

import pytest

from perfdoctor.errors import PerfdoctorError
from perfdoctor.trials import plan


def make(**given: object) -> plan.Plan:
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


def test_seconds_bound_the_whole_trial() -> None:
    made = make(seconds=200.0)
    assert 10.0 + made.rounds * 2 * made.execution_s == pytest.approx(200.0, rel=0.01)


def test_steps_and_rounds_that_were_asked_for_are_kept() -> None:
    made = make(steps=70, rounds=4)
    assert (made.steps, made.rounds) == (70, 4)


def test_no_more_steps_are_planned_than_the_script_takes() -> None:
    assert make(longest_steps=40).steps == 35


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
