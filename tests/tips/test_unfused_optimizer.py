from __future__ import annotations

import pytest

from perfdoctor.tips.unfused_optimizer import unfused_optimizer as tip
from tests.support.facts import step
from tests.support.script_facts import optimizer, optimizers

UPDATES = step(forward=3, backward=3, optimizer=4)


def test_names_the_tensors_the_way_and_the_constructor():
    advice = tip(UPDATES, optimizers())
    assert advice.because == (
        "40.0% of the step is the update of 100 tensors by AdamW (for-loop)",
        "6,400 elements, 64 per tensor",
    )
    assert [at.line for at in advice.at] == [30]
    assert (advice.tweak, advice.code) == ("--fused-optimizer", "torch.optim.AdamW(..., fused=True)")


def test_of_many_small_tensors_nearly_all_goes():
    change = tip(UPDATES, optimizers()).change
    assert change.step.likely == pytest.approx(0.4 * 0.85, rel=0.01)
    assert change.step.high < 0.4


def test_of_large_tensors_what_moves_through_memory_less_often_goes():
    large = optimizer("Adam", tensors=4, elements=4_000_000)  # 18 passes take longer than the update
    change = tip(UPDATES, optimizers(large)).change
    assert change.step.likely == pytest.approx(0.4 * (1 - 7 / 18))


def test_sgd_without_momentum_saves_no_pass():
    large = optimizer("SGD", tensors=4, elements=40_000_000)
    assert tip(UPDATES, optimizers(large)).change.step.likely == 0.0
    with_momentum = optimizer("SGD", tensors=4, elements=40_000_000, momentum=True)
    assert tip(UPDATES, optimizers(with_momentum)).change.step.likely == pytest.approx(0.4 * (1 - 5 / 8))


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


@pytest.mark.parametrize(("ms", "fires"), [(1.49, False), (1.51, True)])
def test_speaks_from_a_seventh_of_the_step(ms, fires):
    assert (tip(step(forward=5, backward=5 - ms, optimizer=ms), optimizers()) is not None) is fires
