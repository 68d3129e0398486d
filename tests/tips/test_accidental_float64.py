from __future__ import annotations

import pytest

from perfdoctor.facts.device.rooflines import NarrowedDoubles
from perfdoctor.model.measured import ThreadFacts
from perfdoctor.tips.accidental_float64 import accidental_float64 as tip
from tests.support.facts import run, step
from tests.support.script_facts import at, model

COMPUTES = step(forward=4, backward=4, optimizer=1, other=1)
NONE = NarrowedDoubles(None)
LARGE, SMALL = (ThreadFacts(1, None, per_module_s=each_s) for each_s in (0.01, 0.0001))
WIDE = model(1.0, widened=(("Module.double", at(27)),))


def test_names_what_widens_and_where():
    advice = tip(run(), COMPUTES, WIDE, LARGE, NONE)
    assert advice.because == (
        "100% of 1,000,000 parameters are float64",
        "computing is 90% of the step",
        "line 27: Module.double",
    )
    assert [at.line for at in advice.at] == [27]


@pytest.mark.parametrize(("share", "tweak"), [(1.0, "--float32"), (0.9, None)])
def test_names_the_tweak_where_all_parameters_are_wide(share, tweak):
    assert tip(run(), COMPUTES, model(share), LARGE, NONE).tweak == tweak


def test_without_such_a_line_the_model_is_named():
    assert [at.line for at in tip(run(), COMPUTES, model(1.0), LARGE, NONE).at] == [25]


@pytest.mark.parametrize(("threads", "gone"), [(LARGE, 0.45), (SMALL, 0.2)])
def test_on_a_cpu_small_operations_gain_less_and_none_more_than_half(threads, gone):
    share = tip(run(), COMPUTES, WIDE, threads, NONE).change.step
    assert (share.likely, share.high) == pytest.approx((0.9 * gone, 0.45))


def test_on_a_device_its_rates_tell_where_they_are_known():
    doubles = NarrowedDoubles((0.75, 0.83, 0.9))
    share = tip(run(device="H200"), COMPUTES, WIDE, LARGE, doubles).change.step
    assert (share.low, share.likely, share.high) == (0.75, 0.83, 0.9)


def test_on_a_device_it_may_be_nearly_all():
    assert tip(run(device="GeForce"), COMPUTES, WIDE, LARGE, NONE).change.step.high == pytest.approx(
        0.9 * 0.95
    )


@pytest.mark.parametrize(
    ("of_step", "found"),
    [
        pytest.param(COMPUTES, model(0.49), id="most-parameters-are-narrow"),
        pytest.param(step(data_wait=91, forward=9), WIDE, id="little-computing"),
    ],
)
def test_is_silent(of_step, found):
    assert tip(run(), of_step, found, LARGE, NONE) is None
