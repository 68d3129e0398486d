from __future__ import annotations

import pytest

from perfdoctor.facts.predict.contention import LARGEST, USUAL, cpu_contention


def factors(**given):
    return {"threads": 2, "cores": 2, "compute": {"1": 1.5}, "worker": {"1": 1.5}} | given


def test_hyper_threads_are_short_of_cores_sooner():
    measured = {"threads": 8, "cores": 16, "compute": {"16": 3.0}}
    assert cpu_contention(measured).compute[2] == pytest.approx(4.0)
    assert cpu_contention(measured, worth=10 / 16).compute[2] == pytest.approx(2.0 / 1.4)


def test_what_even_sharing_takes_is_a_loss_of_one():
    found = cpu_contention(factors())
    assert found.compute[1] == pytest.approx(1.0)
    assert found.worker[1] == pytest.approx(1.0)


def test_teams_of_threads_that_wait_for_each_other_lose_more():
    assert cpu_contention(factors(compute={"1": 3.0})).compute == pytest.approx((1.0, 2.0, 4.0))


def test_of_several_numbers_of_workers_the_least_loss_counts():
    assert cpu_contention(factors(compute={"1": 3.0, "2": 40.0})).compute[2] == pytest.approx(4.0)


def test_the_best_case_loses_least():
    best, likely, worst = cpu_contention(factors(compute={"1": 3.0})).compute
    assert best < likely < worst


def test_factors_below_one_are_noise():
    assert cpu_contention(factors(compute={"1": 0.8})).compute[0] == 0


def test_a_machine_that_was_busy_with_something_else_is_bounded():
    assert cpu_contention(factors(compute={"1": 99.0})).compute[2] == LARGEST


@pytest.mark.parametrize(
    "alien",
    [
        None,
        {},
        {"threads": 2},
        factors(cores=8),
        factors(compute=None, worker=[]),
        factors(compute={"x": "y"}, worker={"1": None}),
        factors(threads="2"),
    ],
)
def test_what_says_nothing_leaves_the_usual_losses(alien):
    found = cpu_contention(alien)
    assert (found.compute, found.worker) == (USUAL.compute, USUAL.worker)


def test_the_size_of_the_team_is_that_of_the_measurement():
    assert cpu_contention(factors(threads=8)).threads == 8
    assert cpu_contention(factors(threads=0.5)).threads == 1
    assert cpu_contention(None).threads == 1
    assert cpu_contention(factors(threads=8)).seen(2.0, 0.5).threads == 8


def test_what_a_run_shows_itself_is_believed():
    assert USUAL.seen(2.0, 0.5).compute == pytest.approx((1.6, 2.0, 2.4))
    assert USUAL.seen(2.0, 0.5).worker[1] == 0.5


def test_a_run_that_shows_no_loss_leaves_the_usual_ones():
    assert USUAL.seen(0.0, 0.0) == USUAL
