from __future__ import annotations

import pytest

from perfdoctor.tips.gradients_never_cleared import gradients_never_cleared as tip
from tests.support.facts import step
from tests.support.host_facts import clearing

STEP = step(forward=4, backward=6)


def test_says_that_it_is_about_the_result_and_names_the_users_own_objects():
    advice = tip(STEP, clearing(kept=20))
    assert advice is not None
    assert advice.change is None
    assert not advice.same_result
    assert "affects the result, not the speed" in advice.because[1]
    assert [at.line for at in advice.at] == [12, 13]
    assert advice.code == "self.opt.zero_grad()\nerr.backward()"


@pytest.mark.parametrize(
    "of_clearing",
    [
        pytest.param(clearing(kept=9), id="too-few-updates"),
        pytest.param(clearing(kept=20, cleared=1), id="cleared-once"),
        pytest.param(clearing(kept=20, doubtful=True), id="cleared-behind-torchs-back-perhaps"),
    ],
)
def test_is_silent(of_clearing):
    assert tip(STEP, of_clearing) is None


def test_fires_at_the_threshold():
    assert tip(STEP, clearing(kept=10)) is not None
