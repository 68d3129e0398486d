from __future__ import annotations

from dataclasses import replace

import pytest

from perfdoctor.facts.script.frozen_features import FrozenFeatureFacts
from perfdoctor.model.change import Estimate
from perfdoctor.model.measured import Location
from perfdoctor.tips.frozen_features import frozen_features as tip
from tests.support.facts import gain, run, step

STEP = step(forward=6, backward=3, other=1)
LINE = Location("train.py", 12, "main", "features = encoder(batch)")
FROZEN = FrozenFeatureFacts(
    "Encoder", 1, 0.5, Estimate(0.7, 0.8, 0.9), 5000.0, 5.0, 2000.0, True, 32.0, (LINE,), 10**9
)

PASSES = "5.0 passes over 5,000 different ones; longer training gains more"


def test_says_what_is_computed_again_and_what_keeping_it_takes():
    advice = tip(run(), STEP, FROZEN)
    assert advice.because == (
        "Encoder takes 50% of each step (5.0 ms) and nothing in it is trained",
        "about 80% of its inputs had been computed before: " + PASSES,
        "what it returns for 5,000 takes 10 MB; 1 GB were free",
    )
    assert advice.at == (LINE,)
    assert gain(advice).likely == pytest.approx(1 / (1 - 0.4))


def test_what_does_not_fit_into_memory_goes_into_a_file_and_is_read_from_it():
    advice = tip(run(), STEP, replace(FROZEN, free_bytes=15_000_000))
    takes = "what it returns for 5,000 takes 10 MB; 15 MB were free"
    assert advice.because[2] == takes + ", too little to keep it other than in a file"
    assert "memmap" in advice.code
    read_s = 32 * 2000 / 0.5e9
    assert gain(advice).likely == pytest.approx(1 / (1 - (0.4 - read_s / STEP.mean_s)))
    assert tip(run(), STEP, replace(FROZEN, row_bytes=200_000.0)) is None  # reading takes longer


def test_each_rank_keeps_its_own_and_nothing_is_said_of_memory_that_was_not_measured():
    because = tip(run(ranks=2), STEP, replace(FROZEN, free_bytes=None)).because
    assert because[2] == "what it returns for 5,000 takes 10 MB in each of 2 ranks"
    assert "memmap" not in tip(run(ranks=2), STEP, replace(FROZEN, free_bytes=40_000_000)).code
    assert "memmap" in tip(run(ranks=2), STEP, replace(FROZEN, free_bytes=39_000_000)).code


def test_several_modules_are_told_together_and_what_was_sampled_is_called_so():
    because = tip(run(), STEP, replace(FROZEN, modules=3, whole=False, row_bytes=0.0)).because
    assert because[0].startswith("Encoder and 2 more frozen modules take 50%")
    assert "by those that came again in the steps looked at" in because[1]
    assert len(because) == 2


def test_fires_at_the_threshold_and_is_silent_just_under_it():
    assert tip(run(), STEP, replace(FROZEN, share=0.063)) is not None
    assert tip(run(), STEP, replace(FROZEN, share=0.062)) is None


def test_is_silent_where_hardly_an_input_comes_again():
    assert tip(run(), STEP, replace(FROZEN, again=Estimate(0.0, 0.05, 0.1))) is None
