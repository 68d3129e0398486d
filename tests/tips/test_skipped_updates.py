from __future__ import annotations

import pytest

from perfdoctor.facts.script.skipped_updates import SkippedUpdateFacts
from perfdoctor.tips.skipped_updates import skipped_updates as tip
from tests.support.facts import gain
from tests.support.script_facts import precision

SCALED = precision("float16", scaled=True)


def test_says_how_many_are_left_out_and_that_their_steps_are_in_vain():
    advice = tip(SkippedUpdateFacts(1000, 200), SCALED)
    assert advice.because == (
        "the GradScaler left out 200 of 1,000 updates (20%), those at the beginning not counted",
        "what these steps computed is thrown away",
    )
    assert [at.line for at in advice.at] == [44]
    assert not advice.same_result
    assert 'torch.autocast("cpu", dtype=torch.bfloat16)' in advice.code
    assert gain(advice).likely == pytest.approx(1 / (1 - 0.2))
    assert gain(advice).low == pytest.approx(1 / (1 - 0.1))


def test_where_most_are_left_out_the_training_is_broken_and_not_slow():
    advice = tip(SkippedUpdateFacts(1000, 990), SCALED)
    assert advice.change is None
    assert "NaN" in advice.because[1]


@pytest.mark.parametrize(
    "skipped",
    [
        pytest.param(SkippedUpdateFacts(10_000, 5), id="a-scaler-tries-a-larger-scale"),
        pytest.param(SkippedUpdateFacts(1000, 50), id="just-at-the-share"),
        pytest.param(SkippedUpdateFacts(99, 20), id="too-few-updates"),
        pytest.param(SkippedUpdateFacts(100, 9), id="too-few-left-out"),
    ],
)
def test_is_silent(skipped):
    assert tip(skipped, SCALED) is None
