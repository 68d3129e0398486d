from __future__ import annotations

from dataclasses import replace

import pytest

from perfdoctor.tips.autocast_misused import autocast_misused as tip
from tests.support.script_facts import model, precision


def test_autocast_around_backward_is_shown_with_its_with_and_the_backward():
    advice = tip(precision("bfloat16", in_backward="bfloat16"), model())
    assert advice.because == (
        "autocast (bfloat16) is still on in the backward pass: torch advises against it",
    )
    assert [at.line for at in advice.at] == [42, 44]
    assert advice.change is None


def test_float16_wants_a_scaler():
    advice = tip(precision("float16"), model())
    assert advice.because == (
        "autocast computes in float16 without a GradScaler: small gradients underflow to 0",
    )


def test_autocast_and_half_are_one_too_many():
    advice = tip(precision("float16", scaled=True), model(float16_trained=1.0))
    assert advice.because == ("autocast is on, although 100% of what is trained is already float16",)


@pytest.mark.parametrize(
    ("found", "of_model"),
    [
        pytest.param(precision(), model(), id="no-autocast"),
        pytest.param(precision("float16", scaled=True), model(), id="scaled"),
        pytest.param(precision("bfloat16"), model(float16_trained=0.49), id="bfloat16-needs-no-scaling"),
        pytest.param(precision(), model(float16_trained=1.0), id="half-alone"),
        pytest.param(precision("float16", scaled=True), model(float16=1.0), id="a-frozen-base-in-half"),
        pytest.param(
            replace(precision("bfloat16", in_backward="bfloat16"), autocast_at=None),
            model(),
            id="a-library's-autocast",
        ),
    ],
)
def test_is_silent(found, of_model):
    assert tip(found, of_model) is None
