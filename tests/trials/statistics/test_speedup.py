from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from perfdoctor.model.trial import Outcome
from perfdoctor.trials.statistics import speedup

PLANNED = 5


def pairs(*ratios_: float, original_s: float = 0.1) -> list[speedup.Round]:
    """Rounds of whole executions in which the variant was so many times as fast."""
    return [[(original_s, original_s / ratio)] for ratio in ratios_]


def turns(*ratios_: float) -> speedup.Round:
    """A round of turns in which the variant was so many times as fast."""
    return [(0.1, 0.1 / ratio) for ratio in ratios_]


@given(st.floats(0.5, 0.999999), st.integers(1, 60))
def test_quantiles_are_those_of_students_distribution(probability: float, degrees: int) -> None:
    expected = stats.t.ppf(probability, degrees)
    assert speedup.quantile(probability, degrees) == pytest.approx(expected, rel=1e-6, abs=1e-9)


def test_an_interval_without_looks_in_between_is_the_t_interval_of_the_log_ratios() -> None:
    found = speedup.speedup(pairs(1.2, 1.3, 1.25), planned=3)
    logs = np.log([1.2, 1.3, 1.25])
    low, high = stats.t.interval(0.95, 2, np.mean(logs), stats.sem(logs))
    assert (found.low, found.high) == pytest.approx((math.exp(low), math.exp(high)))
    assert found.likely == pytest.approx(math.exp(np.mean(logs)))


@pytest.mark.parametrize("planned", [3, 4, 5, 8, 20])
def test_all_looks_together_spend_what_may_be_wrong(planned: int) -> None:
    spent = [speedup.wrong_at(rounds, planned) for rounds in range(3, planned + 1)]
    assert sum(spent) == pytest.approx(0.05)
    assert max(spent) == spent[-1] >= 0.04
    in_turns = [speedup.wrong_at(rounds, planned, in_turns=True) for rounds in range(3, planned + 1)]
    assert sum(in_turns) == pytest.approx(0.05)
    assert max(in_turns) == pytest.approx(in_turns[-1])


@pytest.mark.parametrize("in_turns", [False, True])
@pytest.mark.parametrize("ends", [3, 4, 6, 9])
def test_a_last_look_before_its_time_spends_what_those_before_it_left(ends: int, in_turns: bool) -> None:
    before = [speedup.wrong_at(rounds, 9, in_turns) for rounds in range(3, ends)]
    assert sum(before) + speedup.wrong_at(ends, 9, in_turns, is_last=True) == pytest.approx(0.05)


def test_swapping_original_and_variant_turns_the_interval_round() -> None:
    one = speedup.speedup(pairs(1.2, 1.3, 1.25, 1.1), PLANNED)
    other = speedup.speedup([[pair[::-1]] for ((pair),) in pairs(1.2, 1.3, 1.25, 1.1)], PLANNED)
    assert (1 / other.high, 1 / other.likely, 1 / other.low) == pytest.approx((one.low, one.likely, one.high))


def test_a_slow_machine_in_some_rounds_does_not_matter_where_it_slows_both() -> None:
    rounds = [[(0.1, 0.08)], [(0.3, 0.24)], [(0.15, 0.12)]]
    assert speedup.speedup(rounds, 3).likely == pytest.approx(1.25)
    assert speedup.compare(rounds, 3).outcome is Outcome.FASTER


@pytest.mark.parametrize(
    ("found", "outcome"),
    [
        ((1.30, 1.32, 1.29, 1.31, 1.30), Outcome.FASTER),
        ((0.70, 0.72, 0.69, 0.71, 0.70), Outcome.SLOWER),
        ((1.30, 0.80, 1.10, 0.95, 1.02), Outcome.NO_DIFFERENCE),
        ((1.00, 1.001, 0.999, 1.0, 1.0), Outcome.NO_DIFFERENCE),
    ],
)
def test_the_outcome_follows_from_the_interval(found: tuple[float, ...], outcome: Outcome) -> None:
    assert speedup.compare(pairs(*found), PLANNED).outcome is outcome


def test_a_difference_of_at_most_one_percent_is_told_and_not_claimed() -> None:
    found = speedup.compare(pairs(1.0050, 1.0052, 1.0051, 1.0050, 1.0049), PLANNED)
    assert found.outcome is Outcome.NO_DIFFERENCE
    assert found.speedup is not None
    assert found.speedup.low > 1.0
    assert found.because.endswith("a difference, of at most 1%")


def test_no_difference_says_whether_more_time_could_tell() -> None:
    because = speedup.compare(pairs(1.3, 0.8, 1.1, 0.95, 1.0), PLANNED).because
    assert because.endswith("to decide; more time (--seconds) or a quieter machine may help")
    assert "worth a change" in speedup.compare(pairs(1.0, 1.001, 0.999, 1.0, 1.0), PLANNED).because


def test_of_an_interval_that_decides_it_is_said_how_small_the_difference_is() -> None:
    because = speedup.compare(pairs(1.01, 0.97, 1.02, 1.0, 0.98), PLANNED).because
    assert because.endswith("times as fast, over 5 rounds: a difference, if any, of less than 4%")


def test_two_rounds_claim_nothing() -> None:
    found = speedup.compare(pairs(2.0, 2.0), PLANNED)
    assert (found.outcome, found.speedup, found.confidence) == (Outcome.NOT_MEASURED, None, None)
    assert not speedup.enough(pairs(2.0, 2.0), PLANNED)


def test_three_rounds_are_enough_for_an_effect_far_above_the_noise() -> None:
    assert speedup.enough(pairs(2.0, 2.05, 1.98), PLANNED)
    assert speedup.enough(pairs(0.5, 0.51, 0.49), PLANNED)


def test_three_rounds_are_enough_where_nothing_worth_knowing_is_left() -> None:
    assert speedup.enough(pairs(1.0, 1.001, 0.999), PLANNED)


def test_three_rounds_that_would_convince_without_looks_in_between_are_not_enough() -> None:
    rounds = pairs(1.05, 1.06, 1.08)
    assert speedup.compare(rounds, planned=3).outcome is Outcome.FASTER
    assert not speedup.enough(rounds, PLANNED)


def test_all_planned_rounds_are_enough_whatever_they_say() -> None:
    assert speedup.enough(pairs(1.3, 0.8, 1.1, 0.95, 1.0), PLANNED)


def normal(random: np.random.Generator, count: int) -> np.ndarray:
    return random.normal(0.0, 0.03, count)


def heavy_tailed(random: np.random.Generator, count: int) -> np.ndarray:
    """Now and then an execution is slowed to a multiple."""
    return np.abs(random.standard_t(2, count)) * 0.03


def autocorrelated(random: np.random.Generator, count: int) -> np.ndarray:
    """What slows one execution slows the next ones, too."""
    noise = random.normal(0.0, 0.03, count)
    for index in range(1, count):
        noise[index] += 0.9 * noise[index - 1]
    return noise


@pytest.mark.parametrize("noise", [normal, heavy_tailed, autocorrelated])
@pytest.mark.parametrize("planned", [3, 5, 8])
def test_equal_programs_are_called_different_in_at_most_five_percent_of_trials(noise, planned) -> None:
    random = np.random.default_rng(planned)
    trials, alarms = 1_500, 0
    for _ in range(trials):
        seconds = np.exp(noise(random, 2 * planned)).reshape(planned, 2)
        seconds[1::2] = seconds[1::2, ::-1].copy()  # every other round in the opposite order
        rounds = [[(float(original_s), float(variant_s))] for original_s, variant_s in seconds]
        looks = next(n for n in range(1, planned + 1) if speedup.enough(rounds[:n], planned))
        alarms += speedup.compare(rounds[:looks], planned).outcome is not Outcome.NO_DIFFERENCE
    assert alarms <= stats.binom.ppf(0.999, trials, 0.05)


# ---------------------------------------------------------------- turns between fresh starts


def test_three_fresh_starts_that_agree_in_their_turns_decide() -> None:
    rounds = [turns(1.5, 1.6, 1.55, 1.52), turns(1.58, 1.5, 1.56, 1.54), turns(1.52, 1.51, 1.55, 1.6)]
    found = speedup.compare(rounds, planned=9)
    assert found.outcome is Outcome.FASTER
    assert found.speedup is not None
    assert found.speedup.low < 1.55 < found.speedup.high < 1.9


def test_two_fresh_starts_claim_nothing_however_many_turns_they_have() -> None:
    assert speedup.compare([turns(*[2.0] * 30)] * 2, planned=9).outcome is Outcome.NOT_MEASURED


def test_starts_that_differ_make_the_interval_wider_than_their_turns_do() -> None:
    alike = speedup.speedup([turns(1.5, 1.5, 1.5)] * 3, 9)
    apart = speedup.speedup([turns(1.4, 1.4, 1.4), turns(1.6, 1.6, 1.6), turns(1.5, 1.5, 1.5)], 9)
    assert apart.high - apart.low > 1.5 * (alike.high - alike.low)
    assert alike.low < 1.47  # another start may be another 2 % off, as fresh starts are


def test_a_turn_beside_a_burst_of_other_work_is_left_out_of_a_rounds_mean() -> None:
    calm = [turns(*[1.2] * 10)] * 3
    burst = [turns(*[1.2] * 9, 4.0), turns(*[1.2] * 9, 0.3), turns(*[1.2] * 10)]
    assert speedup.speedup(burst, 4).likely == pytest.approx(speedup.speedup(calm, 4).likely)


def test_slowness_that_lasts_for_several_turns_makes_the_interval_wider() -> None:
    lasting = [turns(1.3, 1.3, 1.3, 1.3, 1.1, 1.1, 1.1, 1.1)] * 3
    passing = [turns(1.3, 1.1, 1.3, 1.1, 1.3, 1.1, 1.3, 1.1)] * 3
    assert speedup.speedup(lasting, 4).high > speedup.speedup(passing, 4).high


def test_a_round_whose_turns_agree_by_chance_does_not_carry_the_mean() -> None:
    usual, calm = (1.5, 1.1, 1.3, 1.2, 1.4), (1.106, 1.024, 1.068, 1.047, 1.088)  # a quarter of the scatter
    found = speedup.speedup([turns(*usual)] * 2 + [turns(*calm)] + [turns(*usual)] * 2, 9)
    assert found.likely == pytest.approx(1.30**0.8 * 1.067**0.2, rel=0.01)


def test_rounds_in_a_burst_of_other_work_count_for_little() -> None:
    calm = [turns(1.19, 1.21, 1.2, 1.2, 1.2)] * 4
    burst = turns(0.5, 2.5, 0.8, 0.6, 3.0)
    alone, beside = speedup.speedup(calm, 9), speedup.speedup([*calm, burst], 9)
    assert beside.likely == pytest.approx(alone.likely, rel=0.01)
    assert beside.high < alone.high * 1.02


def test_calm_rounds_count_little_more_than_others_where_starts_are_further_apart_than_is_known() -> None:
    calm = [turns(*[ratio] * 5) for ratio in (0.8, 1.25)]
    rough = [turns(*(ratio * each for each in (0.9, 1.1, 0.95, 1.05, 1.0))) for ratio in (1.2, 1.5, 1.35)]
    mean = math.exp(np.mean(np.log([0.8, 1.25, 1.2, 1.5, 1.35])))
    assert speedup.speedup([*calm, *rough], 9).likely == pytest.approx(mean, rel=0.02)


def test_on_a_busy_machine_a_gain_of_a_third_is_told_by_nine_starts_in_most_trials() -> None:
    random, trials, told = np.random.default_rng(3), 200, 0
    for _ in range(trials):
        logs = random.normal(0.0, 0.3, (9, 5, 2)) + random.normal(0.0, 0.015, (9, 1, 2))
        rounds = [[(float(one), float(other) / 1.33) for one, other in np.exp(each)] for each in logs]
        told += speedup.compare(rounds, 20, is_last=True).outcome is Outcome.FASTER
    assert told > 0.75 * trials


def test_a_decided_trial_goes_on_while_another_round_would_tell_how_much() -> None:
    rough = [turns(1.7, 2.0, 2.5, 1.7), turns(1.9, 2.4, 1.8, 2.1), turns(1.9, 2.0, 2.7, 2.1)]
    assert speedup.compare(rough, 9).outcome is Outcome.FASTER
    assert not speedup.enough(rough, 9)


@pytest.mark.parametrize("noise", [normal, heavy_tailed, autocorrelated])
@pytest.mark.parametrize("starts", [0.0, 0.015, 0.05])
def test_equal_trainings_in_turns_are_called_different_in_at_most_five_percent(noise, starts) -> None:
    random = np.random.default_rng(7)
    trials, alarms, planned, count = 500, 0, 9, 5
    for _ in range(trials):
        rounds = []
        for _ in range(planned):
            seconds = np.exp(noise(random, 2 * count)).reshape(count, 2)
            seconds[1::2] = seconds[1::2, ::-1].copy()
            seconds *= np.exp(random.normal(0.0, starts, 2))
            rounds.append([(float(original_s), float(variant_s)) for original_s, variant_s in seconds])
        looks = next(n for n in range(1, planned + 1) if speedup.enough(rounds[:n], planned))
        alarms += speedup.compare(rounds[:looks], planned).outcome is not Outcome.NO_DIFFERENCE
    assert alarms <= stats.binom.ppf(0.999, trials, 0.05)


def test_three_starts_that_scatter_by_more_than_expected_raise_no_more_alarms() -> None:
    random = np.random.default_rng(5)
    trials, alarms = 3_000, 0
    for _ in range(trials):
        logs = random.normal(0.0, 0.15, (3, 1)) + random.normal(0.0, 0.03, (3, 4))
        rounds = [turns(*ratios) for ratios in np.exp(logs).tolist()]
        alarms += speedup.compare(rounds, planned=3).outcome is not Outcome.NO_DIFFERENCE
    assert alarms <= stats.binom.ppf(0.999, trials, 0.05)
