from __future__ import annotations

from dataclasses import replace

import pytest

from perfdoctor.model.concluded import Bottleneck
from perfdoctor.tips.unfused_optimizer import unfused_optimizer as tip
from tests.support.facts import step
from tests.support.script_facts import at, optimizer, optimizers

UPDATES = step(forward=3, backward=3, optimizer=4)


def test_names_the_tensors_the_way_and_the_constructor():
    advice = tip(UPDATES, optimizers())
    assert advice.because == (
        "40.0% of the step is the update of 100 tensors by AdamW (for-loop)",
        "6,400 elements, 64 per tensor",
    )
    assert [at.line for at in advice.at] == [30]
    assert (advice.tweak, advice.code) == ("--fused-optimizer", "torch.optim.AdamW(..., fused=True)")


def test_of_several_optimizers_each_ones_line_is_named():
    small = optimizer("Adam", tensors=4, elements=400, constructed_at=at(31))
    advice = tip(UPDATES, optimizers(small, optimizer()))
    assert [at.line for at in advice.at] == [30, 31]
    assert advice.because == (
        "40.0% of the step is the update of 104 tensors by 2 optimizers, the largest of them AdamW (for-loop)",
        "6,800 elements, 65 per tensor",
    )


def test_no_more_than_what_the_update_takes_is_likely_to_go():
    assert tip(UPDATES, optimizers()).takes == pytest.approx(0.4)
    assert tip(UPDATES, optimizers(optimizer(), optimizer("LBFGS", None))).takes == pytest.approx(0.2)


def test_a_trainer_is_told_of_an_optimizer_that_it_constructs_on_the_line_that_has_it_train():
    assert tip(UPDATES, optimizers()).arguments is None
    by_trainer = optimizer(constructed_at=at(50))
    assert tip(UPDATES, optimizers(by_trainer)).arguments == 'optim="adamw_torch_fused"'
    assert tip(UPDATES, optimizers(optimizer("Adam", constructed_at=at(50)))).arguments is None


def test_what_clips_or_scales_before_the_update_is_not_credited():
    half = replace(optimizers(), own_share=0.5)
    advice = tip(UPDATES, half)
    assert advice.because[0].startswith("20.0% of the step is the update")
    assert advice.change.step.likely == pytest.approx(0.2 * 0.85, rel=0.03)
    assert tip(UPDATES, replace(optimizers(), own_share=0.3)).is_choice


def test_on_a_device_without_a_window_nothing_of_it_may_be_the_update():
    grouped = optimizers(optimizer(way="foreach", device="cuda"))
    assert tip(UPDATES, grouped).change.step.low == 0.0
    assert tip(UPDATES, replace(grouped, scaled=True)) is None
    told = tip(UPDATES, replace(grouped, scaled=True, on_device=0.3))
    assert told.because[0].startswith("30.0% of the step is the update")
    assert told.change.step.low == pytest.approx(0.03)


def test_where_a_device_waits_for_launches_it_is_the_hosts_time_that_counts():
    launched = replace(optimizers(optimizer(way="for-loop", device="cuda")), on_device=0.1)
    assert tip(UPDATES, launched).is_choice
    late = tip(UPDATES, replace(launched, late=0.8))
    assert late.because[0].startswith("40.0% of the step is the update")
    assert late.bottleneck is Bottleneck.HOST
    hardly = tip(UPDATES, replace(launched, late=0.08))
    assert hardly.because[0].startswith("18.0% of the step is the update")
    assert hardly.bottleneck is None
    assert tip(UPDATES, replace(launched, late=0.8, scaled=True)).is_choice


def test_of_many_small_tensors_nearly_all_goes():
    change = tip(UPDATES, optimizers()).change
    assert change.step.likely == pytest.approx(0.4 * 0.85, rel=0.02)
    assert change.step.high < 0.4


def test_of_large_tensors_what_moves_through_memory_less_often_goes():
    large = optimizer("Adam", tensors=4, elements=4_000_000)  # 18 passes take longer than the update
    change = tip(UPDATES, optimizers(large)).change
    assert change.step.likely == pytest.approx(0.4 * (1 - 7 / 18), rel=0.01)


@pytest.mark.parametrize("elements", [1_000, 40_000_000])
def test_sgd_without_momentum_saves_neither_a_pass_nor_an_operator(elements):
    assert tip(UPDATES, optimizers(optimizer("SGD", tensors=4, elements=elements))) is None


def test_sgd_with_momentum_saves_passes():
    with_momentum = optimizer("SGD", tensors=4, elements=40_000_000, momentum=True)
    updates = step(forward=2, backward=3, optimizer=5)
    assert tip(updates, optimizers(with_momentum)).change.step.likely == pytest.approx(
        0.5 * (1 - 5 / 8), rel=0.01
    )


def test_a_small_model_whose_update_is_mostly_the_call_of_step_is_healthy():
    # three layers in steps of 1 ms: Adam by tensors takes 180 us, most of which are not for each tensor
    small = optimizer("Adam", tensors=6, elements=20_000)
    healthy = step(data_wait=0.05, forward=0.32, backward=0.45, optimizer=0.18)
    found = tip(healthy, optimizers(small))
    assert found is None or found.is_choice


def test_the_same_small_model_with_many_tensors_is_told():
    many = optimizer("Adam", tensors=60, elements=20_000)
    assert tip(step(forward=0.5, backward=0.7, optimizer=0.9), optimizers(many)) is not None


def test_only_the_part_of_optimizers_that_can_be_fused_goes():
    both = optimizers(optimizer(), optimizer("LBFGS", None))
    assert tip(UPDATES, both).change.step.high == pytest.approx(
        tip(UPDATES, optimizers()).change.step.high / 2
    )


def test_groups_of_tensors_on_a_device_gain_less():
    grouped = optimizers(optimizer(way="foreach", device="cuda"))
    assert tip(UPDATES, grouped).change.step.high < tip(UPDATES, optimizers()).change.step.likely


@pytest.mark.parametrize(
    "found",
    [
        pytest.param(optimizer(way="fused"), id="fused-already"),
        pytest.param(optimizer("RMSprop"), id="no-fused-way"),
        pytest.param(optimizer("Adagrad", device="cuda"), id="no-fused-way-on-this-device"),
        pytest.param(optimizer(device="mps"), id="a-device-that-was-not-tried"),
        pytest.param(optimizer(special=True), id="sparse-gradients"),
        pytest.param(optimizer("AdamW", name="bitsandbytes.AdamW"), id="of-another-library"),
    ],
)
def test_is_silent(found):
    assert tip(UPDATES, optimizers(found)) is None


@pytest.mark.parametrize(("ms", "is_choice"), [(1.78, True), (1.81, False)])
def test_less_than_a_seventh_of_the_step_that_would_go_is_a_choice(ms, is_choice):
    found = tip(step(forward=5, backward=5 - ms, optimizer=ms), optimizers())
    assert found.is_choice is is_choice
    assert found.change.step.likely == pytest.approx(0.15, abs=0.003)


@pytest.mark.parametrize(("ms", "speaks"), [(0.94, False), (1.01, True)])
def test_less_than_a_twelfth_is_not_told(ms, speaks):
    assert (tip(step(forward=5, backward=5 - ms, optimizer=ms), optimizers()) is not None) is speaks
