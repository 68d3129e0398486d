from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from perfdoctor.facts.steps.boundaries import Floats
from perfdoctor.model.trial import Execution, ExecutionEnd
from perfdoctor.probe.trial.tweak import BITWISE, PATH, ROUNDING
from perfdoctor.trials.statistics.losses import ROUNDOFF, compare
from tests.support.trial_runs import broken, execution

STEPS = 60
NAN = float("nan")


def falling(steps: int = STEPS, noise: float = 0.05, batches: int = 0) -> Floats:
    """A loss that falls from 2 to 0.5, around which it scatters from batch to batch."""
    trend = 0.5 + 1.5 * np.exp(-np.arange(steps) / 20)
    return trend * (1 + np.random.default_rng(batches).normal(0.0, noise, steps))


def shaken(losses: Floats, by: float, seed: int) -> Floats:
    """As another execution would have them: off by about `by` in each step."""
    return losses * (1 + np.random.default_rng(100 + seed).normal(0.0, by, len(losses)))


def ran(*curves: Floats) -> list[Execution]:
    return [execution(losses=tuple(float(loss) for loss in curve)) for curve in curves]


ORIGINAL = falling()
SAME = ran(*[ORIGINAL] * 4)
NOISY = ran(*[shaken(ORIGINAL, 0.02, seed) for seed in range(4)])


# ---------------------------------------------------------------- bit for bit


def test_the_same_bits_are_the_same_result_whatever_was_promised() -> None:
    for result in (BITWISE, ROUNDING):
        found = compare(SAME, ran(ORIGINAL, ORIGINAL), result)
        assert (found.same, found.difference, found.noise, found.steps) == (True, 0.0, 0.0, STEPS)
        assert "to the last bit" in found.because


def test_a_single_step_is_another_result_where_the_original_repeats_itself() -> None:
    other = ORIGINAL.copy()
    other[40] *= 1.001
    found = compare(SAME, ran(ORIGINAL, other), BITWISE)
    assert found.same is False
    assert "from step 41 on" in found.because


def test_a_difference_that_begins_in_the_last_digits_is_rounding() -> None:
    grown = ORIGINAL * (1 + 1e-7 * 1.2 ** np.arange(STEPS))  # as training amplifies it
    for variants in (ran(ORIGINAL, grown), ran(grown, grown)):
        found = compare(SAME, variants, BITWISE)
        assert found.same is True
        assert "in step 1: rounding" in found.because


def test_what_begins_in_the_last_digits_and_goes_another_way_is_another_result() -> None:
    astray = ORIGINAL * (1 + 1e-7 * 1.4 ** np.arange(STEPS))
    assert compare(SAME, ran(astray, astray), BITWISE).same is False


def test_other_random_numbers_are_named_as_a_reason_where_the_difference_is_that_small() -> None:
    augmented = shaken(ORIGINAL, 0.02, 1)
    assert "other random numbers" in compare(SAME, ran(augmented), BITWISE).because
    assert "other random numbers" not in compare(SAME, ran(1.5 * ORIGINAL), BITWISE).because


def test_random_numbers_that_were_drawn_elsewhere_are_not_judged_as_another_result() -> None:
    def drawing(*curves: Floats) -> list[Execution]:
        return [replace(own, may_differ=("the dataset draws",)) for own in ran(*curves)]

    augmented = shaken(ORIGINAL, 0.02, 1)
    found = compare(SAME, drawing(augmented), BITWISE)
    assert found.same is None
    assert found.because.endswith("no more than other random numbers would cause: the dataset draws")
    assert compare(SAME, drawing(1.5 * ORIGINAL), BITWISE).same is None
    assert compare(SAME, drawing(np.full_like(ORIGINAL, ORIGINAL[0])), BITWISE).same is False
    assert compare(SAME, drawing(ORIGINAL), BITWISE).same is True
    barely = ran(*[shaken(ORIGINAL, 1e-6, seed) for seed in range(4)])
    assert compare(barely, drawing(augmented), BITWISE).same is None
    assert compare(barely, ran(augmented), BITWISE).same is False


def test_bits_of_one_original_that_may_not_repeat_itself_prove_nothing() -> None:
    assert compare(SAME[:1], ran(shaken(ORIGINAL, 1e-7, 1)), BITWISE).same is None
    assert compare(SAME[:1], ran(ORIGINAL), BITWISE).same is True


def test_where_the_original_does_not_repeat_itself_its_own_spread_is_what_is_allowed() -> None:
    found = compare(NOISY, ran(*[shaken(ORIGINAL, 0.02, seed) for seed in (7, 8, 9)]), BITWISE)
    assert found.same is True
    assert found.noise == pytest.approx(0.02 * 2 / np.sqrt(np.pi), rel=0.2)
    assert found.difference == pytest.approx(found.noise, rel=0.2)
    assert "own losses differ" in found.because


def test_a_difference_beyond_that_spread_is_another_result() -> None:
    found = compare(NOISY, ran(*[shaken(1.1 * ORIGINAL, 0.02, seed) for seed in (7, 8, 9)]), BITWISE)
    assert found.same is False


def test_a_small_spread_allows_little_however_much_the_loss_fluctuates() -> None:
    barely = ran(*[shaken(ORIGINAL, 1e-6, seed) for seed in range(4)])
    assert compare(barely, ran(shaken(ORIGINAL, 1e-6, 7)), BITWISE).same is True
    assert compare(barely, ran(falling(batches=1)), BITWISE).same is False


def test_two_originals_that_differ_are_too_few_to_tell_how_far() -> None:
    assert compare(NOISY[:2], ran(ORIGINAL), BITWISE).same is None
    assert compare(NOISY[:2], ran(ORIGINAL), ROUNDING).same is None


def test_one_more_original_is_called_another_result_in_about_one_percent() -> None:
    random = np.random.default_rng(5)
    alarms = 0
    for _ in range(400):
        offsets = 1 + random.normal(0.0, 0.02, 7)  # each execution is off by as much in all its steps
        curves = [ORIGINAL * offset for offset in offsets]
        alarms += compare(ran(*curves[:4]), ran(*curves[4:]), BITWISE).same is False
    assert alarms <= 12  # 4 are expected; more than 12 come once in a thousand times


# ---------------------------------------------------------------- within rounding


def test_rounding_may_differ_by_a_few_roundoffs_of_the_coarsest_format() -> None:
    smooth = falling(noise=0.0)
    smooth[20:] = smooth[20]  # neither fluctuation nor progress to hide in
    assert compare(ran(smooth), ran(smooth * (1 + 0.9 * ROUNDOFF)), ROUNDING).same is True


def test_rounding_may_differ_as_another_order_of_batches_does() -> None:
    for batches in range(1, 21):
        assert compare(SAME, ran(falling(batches=batches)), ROUNDING).same is True


@pytest.mark.parametrize(
    "wrong",
    [
        pytest.param(np.full(STEPS, ORIGINAL[0]), id="a loss that does not fall"),
        pytest.param(falling() * np.linspace(1.0, 1.3, STEPS), id="a loss that turns away"),
        pytest.param(0.5 + 1.5 * np.exp(-np.arange(STEPS) / 40), id="a loss that falls half as fast"),
    ],
)
def test_a_loss_that_goes_another_way_is_no_rounding(wrong: Floats) -> None:
    found = compare(SAME, ran(wrong, wrong), ROUNDING)
    assert found.same is False
    assert "is allowed" in found.because


def test_a_scaler_that_skips_its_first_updates_is_allowed_for() -> None:
    steep = 10.0 * np.exp(-np.arange(40) / 8)
    late = np.concatenate([steep[:1], steep[:1], steep[:-2]])
    assert compare(ran(steep), ran(late), ROUNDING).same is True


def test_a_loss_that_falls_far_in_few_steps_allows_no_more_than_it_scatters() -> None:
    steep = 10.0 * np.exp(-np.arange(109) / 12)
    assert compare(ran(steep), ran(steep * 1.05), ROUNDING).same is False
    assert compare(ran(steep[:15]), ran(steep[:15] * 1.2), ROUNDING).same is False
    noisy = steep * (1 + np.random.default_rng(0).normal(0.0, 0.02, 109))
    assert compare(ran(noisy), ran(noisy * 1.2), ROUNDING).same is False


def test_a_run_may_get_ahead_by_a_few_steps_as_it_may_fall_behind() -> None:
    steep = 10.0 * np.exp(-np.arange(44) / 8)
    assert compare(ran(steep[:-3]), ran(steep[3:]), ROUNDING).same is True
    assert compare(ran(steep[:-12]), ran(steep[12:]), ROUNDING).same is False


def test_what_the_original_differs_from_itself_is_allowed_for_rounding_too() -> None:
    flat = np.full(STEPS, 1.0)
    originals = ran(*[flat * offset for offset in (0.9, 1.0, 1.1)])
    assert compare(originals, ran(flat * 1.08), ROUNDING).same is True
    assert compare(originals[1:2], ran(flat * 1.08), ROUNDING).same is False


# ---------------------------------------------------------------- another path, and what cannot be compared


def test_another_path_is_shown_and_not_judged() -> None:
    found = compare(SAME, ran(2 * ORIGINAL), PATH)
    assert (found.same, found.difference) == (None, pytest.approx(1.0))
    assert "not judged" in found.because


@pytest.mark.parametrize("result", [BITWISE, ROUNDING, PATH])
def test_a_loss_that_is_no_number_any_more_is_another_result_on_any_path(result: str) -> None:
    diverged = ORIGINAL.copy()
    diverged[25:] = NAN
    found = compare(SAME, ran(ORIGINAL, diverged), result)
    assert found.same is False
    assert "after step 25" in found.because


def test_losses_missing_here_and_there_or_at_the_very_end_are_left_out() -> None:
    patchy = ORIGINAL.copy()
    patchy[[3, 4, 30]] = NAN
    patchy[-5:] = NAN
    found = compare(SAME, ran(patchy), BITWISE)
    assert (found.same, found.steps) == (True, STEPS - 8)


def test_a_loss_that_nobody_knows_is_not_compared() -> None:
    unknown = ran(np.full(STEPS, NAN))
    assert compare(unknown, SAME, BITWISE).because == "none of the original's losses are known"
    assert compare(SAME, unknown, BITWISE).because == "none of the variant's losses are known"
    assert compare(SAME, unknown, BITWISE).same is None
    assert compare(SAME, [broken(ExecutionEnd.FAILED)], BITWISE).same is None


def test_few_steps_are_not_compared() -> None:
    found = compare(ran(ORIGINAL[:9]), ran(ORIGINAL[:9]), BITWISE)
    assert (found.same, found.difference) == (None, None)
    assert "fewer than 10 steps" in found.because


def test_executions_of_other_lengths_are_compared_over_the_steps_that_all_have() -> None:
    look = np.concatenate([ORIGINAL, ORIGINAL])
    found = compare(ran(look, ORIGINAL, ORIGINAL[:5]), ran(ORIGINAL), BITWISE)
    assert (found.same, found.steps) == (True, STEPS)
