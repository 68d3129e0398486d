from __future__ import annotations

from dataclasses import replace

import pytest

from perfdoctor.facts.script.frozen_features import FrozenFeatureFacts
from perfdoctor.model.change import Estimate
from perfdoctor.model.measured import Location
from perfdoctor.tips.frozen_features import frozen_features as tip
from tests.support.facts import gain, step

STEP = step(forward=6, backward=3, other=1)
LINE = Location("train.py", 12, "main", "features = encoder(batch)")
FROZEN = FrozenFeatureFacts("Encoder", 1, 0.5, Estimate(0.7, 0.8, 0.9), 5000.0, 5.0, 2000.0, True, (LINE,))

PASSES = "5.0 passes over 5,000 different ones; longer training gains more"


def test_says_what_is_computed_again_and_what_keeping_it_takes():
    advice = tip(STEP, FROZEN)
    assert advice.because == (
        "Encoder takes 50% of each step (5.0 ms) and nothing in it is trained",
        "about 80% of its inputs had been computed before: " + PASSES,
        "what it returns for all of them takes 10 MB",
    )
    assert advice.at == (LINE,)
    assert gain(advice).likely == pytest.approx(1 / (1 - 0.4))


def test_several_modules_are_told_together_and_what_was_sampled_is_called_so():
    because = tip(STEP, replace(FROZEN, modules=3, whole=False, row_bytes=0.0)).because
    assert because[0].startswith("Encoder and 2 more frozen modules take 50%")
    assert "by those that came again in the steps looked at" in because[1]
    assert len(because) == 2


def test_fires_at_the_threshold_and_is_silent_just_under_it():
    assert tip(STEP, replace(FROZEN, share=0.063)) is not None
    assert tip(STEP, replace(FROZEN, share=0.062)) is None


def test_is_silent_where_hardly_an_input_comes_again():
    assert tip(STEP, replace(FROZEN, again=Estimate(0.0, 0.05, 0.1))) is None
