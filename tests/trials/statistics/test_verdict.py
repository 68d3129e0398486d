from __future__ import annotations

import math
from dataclasses import replace

import pytest

from perfdoctor.model.trial import (
    OWN_ERROR,
    ExecutionEnd,
    Outcome,
    Place,
    Setting,
    Variant,
    VariantResult,
)
from perfdoctor.probe.trial.tweak import ROUNDING
from perfdoctor.trials import auto
from perfdoctor.trials.statistics.verdict import verdict
from tests.support.trial_runs import WORKERS, broken, execution, tweaked

LOST = math.nan  # a turn that was disturbed
CALM = ((0.1, 0.101, 0.1, 0.099), (0.05, 0.05, 0.051, 0.05))


def judged(*rounds: tuple[tuple[float, ...], tuple[float, ...]]) -> VariantResult:
    """The verdict after rounds in which both took these turns: (the original's, the variant's)."""
    originals = [execution(0.1, number, turns_s=turns_s) for number, (turns_s, _) in enumerate(rounds)]
    variants = [tweaked(0.05, number, turns_s=turns_s) for number, (_, turns_s) in enumerate(rounds)]
    return verdict(WORKERS, variants, originals, [], 9, None)


@pytest.mark.parametrize(
    "disturbed",
    [
        ((0.1, 0.1, LOST, LOST), (LOST, LOST, 0.05, 0.05)),
        ((0.1, 0.1, 0.1, LOST), (LOST, LOST, 0.07, 0.05)),
    ],
)
def test_a_round_whose_turns_have_no_pairs_is_not_counted(disturbed) -> None:
    without = judged(CALM, CALM, CALM)
    assert without.outcome is Outcome.FASTER
    assert judged(CALM, disturbed, CALM, CALM).speedup == without.speedup
    few = judged(CALM, disturbed, CALM)
    assert (few.outcome, few.because) == (Outcome.NOT_MEASURED, "only 2 of at least 3 rounds were measured")


def test_what_is_added_to_a_base_has_to_keep_its_own_promise_only() -> None:
    amp = Setting("amp", ("--amp",), {}, ROUNDING)
    both = Variant((amp, *WORKERS.settings))
    curve = tuple(math.exp(-step / 20.0) for step in range(40))
    originals = [execution(0.1, number, losses=curve) for number in range(3)]
    variants = [tweaked(0.05, number, losses=tuple(loss * 1.0001 for loss in curve)) for number in range(3)]
    over_amp = verdict(both, variants, originals, [], 9, None, Variant((amp,)))
    assert over_amp.outcome is Outcome.CHANGED
    assert over_amp == replace(verdict(WORKERS, variants, originals, [], 9, None), variant=both)


def test_what_fails_after_enough_rounds_has_a_verdict_and_says_so() -> None:
    originals = [execution(0.1, number) for number in range(4)]
    failed = broken(ExecutionEnd.FAILED, 3, error="OSError: no space")
    variants = [*(tweaked(0.05 + 0.0001 * number, number) for number in range(3)), failed]
    found = verdict(WORKERS, variants, originals, [], 5, None)
    assert found.outcome is Outcome.FASTER
    assert found.because.endswith("; in a later round it failed: OSError: no space")
    assert not auto._is_good(found)
    few = verdict(WORKERS, variants[1:], originals, [], 5, None)
    assert (few.outcome, few.because) == (Outcome.FAILED, "OSError: no space")


def test_what_was_ended_before_its_first_step_did_not_end_by_itself() -> None:
    hung = broken(ExecutionEnd.NO_STEPS, 0, ended_early=True)
    found = verdict(WORKERS, [hung], [execution(0.1, 0)], [], 5, None)
    assert (found.outcome, found.because[:7]) == (Outcome.FAILED, "it hung")
    left = verdict(WORKERS, [replace(hung, ended_early=False)], [execution(0.1, 0)], [], 5, None)
    assert left.because == "it ended without a training step"


def test_a_figure_is_compared_at_the_last_point_of_training_that_all_printed() -> None:
    originals = [execution(0.1, number, printed=(0.5, 0.6, 0.7)) for number in range(3)]
    variants = [tweaked(0.05, number, printed=(0.5, 0.6, 0.7, 0.8)[: 4 - number]) for number in range(3)]
    assert verdict(WORKERS, variants, originals, [], 9, None).metric == (0.6, 0.6)
    assert verdict(WORKERS, variants[:1], originals, [], 9, None).metric == (0.7, 0.7)


def test_what_withdrew_has_no_speedup_whatever_was_measured() -> None:
    originals = [execution(0.1, number) for number in range(4)]
    gone = Place("workers", "DataLoader", because="it streams", step=1)
    variants = [tweaked(0.05, number) for number in range(3)] + [tweaked(0.05, 3, withdrawn=(gone, gone))]
    found = verdict(WORKERS, variants, originals, [], 5, None)
    assert (found.outcome, found.speedup) == (Outcome.WITHDRAWN, None)
    assert found.because == "--workers withdrew after 1 step: DataLoader: it streams"
    assert verdict(WORKERS, variants[:3], originals, [], 5, None).outcome is Outcome.FASTER


def test_a_tweak_that_an_error_turned_off_on_the_way_withdrew() -> None:
    broke = Place("workers", OWN_ERROR, because="TypeError: no")
    hurt = tweaked(0.05, withdrawn=(broke,), broken=("workers: TypeError: no",))
    found = verdict(WORKERS, [hurt], [execution(0.1)], [], 5, None)
    assert found.outcome is Outcome.WITHDRAWN
    assert found.because == "--workers withdrew: an error of its own: TypeError: no"
