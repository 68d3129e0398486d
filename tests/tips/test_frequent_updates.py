from __future__ import annotations

from dataclasses import replace

import pytest

from perfdoctor.tips.frequent_updates import frequent_updates as tip
from tests.support.facts import step
from tests.support.script_facts import optimizer, optimizers

UPDATES = replace(step(forward=3, backward=3, optimizer=4), samples_per_s=400.0)
FUSED = optimizers(optimizer(way="fused", elements=3_000_000))


def test_names_the_share_and_the_line_that_updates():
    advice = tip(UPDATES, FUSED)
    assert advice.because == (
        "40% of the step is the update of 3,000,000 parameters after every 4 samples",
        "one update per 4 backward passes would take 10%",
    )
    assert [at.line for at in advice.at] == [50]
    assert (advice.tweak, advice.same_result) == ("--accumulate 4", False)


def test_takes_all_but_one_update_in_so_many():
    share = tip(UPDATES, FUSED).change.step
    assert (share.low, share.likely, share.high) == pytest.approx((0.2, 0.3, 0.35))


@pytest.mark.parametrize(
    ("of_step", "found"),
    [
        pytest.param(UPDATES, optimizers(), id="a-faster-way-leaves-the-result-as-it-is"),
        pytest.param(replace(UPDATES, samples_per_s=3_400.0), FUSED, id="34-samples-an-update"),
        pytest.param(replace(UPDATES, samples_per_s=None), FUSED, id="samples-are-not-known"),
        pytest.param(
            replace(step(forward=4.5, backward=4.1, optimizer=1.4), samples_per_s=400.0),
            FUSED,
            id="just-under-the-threshold",
        ),
    ],
)
def test_is_silent(of_step, found):
    assert tip(of_step, found) is None


def test_only_what_the_optimizer_itself_takes_counts():
    assert tip(UPDATES, replace(FUSED, own_share=0.5)).because[0].startswith("20% of the step")
    assert tip(UPDATES, replace(FUSED, own_share=0.3)) is None
    on_device = optimizers(optimizer(way="fused", device="cuda"))
    assert tip(UPDATES, on_device).change.step.low == 0.0
    assert tip(UPDATES, replace(on_device, scaled=True)) is None
    assert tip(UPDATES, replace(on_device, scaled=True, on_device=0.2)).change.step.low == pytest.approx(0.1)


def test_just_over_the_threshold_it_speaks():
    over = replace(step(forward=4.5, backward=3.9, optimizer=1.6), samples_per_s=400.0)
    assert tip(over, FUSED) is not None


def test_several_optimizers_are_advised_without_a_tweak():
    both = optimizers(optimizer(way="fused"), optimizer(way="fused"))
    assert tip(UPDATES, both).tweak is None
