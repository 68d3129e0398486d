from __future__ import annotations

import pytest

from perfdoctor.facts.script.double_precision import DoublePrecision
from perfdoctor.tips.accidental_float64 import accidental_float64 as tip
from tests.support.script_facts import at

GONE = (0.2, 0.4, 0.45)


def doubles(share=1.0, computing=0.9, parameters=1_000_000, **given):
    return DoublePrecision(share, computing, GONE, parameters, at(25), **given)


def test_names_what_widens_and_where():
    advice = tip(doubles(widened=(("Module.double", at(27)),)))
    assert advice.because == (
        "100% of 1,000,000 parameters are float64",
        "computing is 90% of the step",
        "line 27: Module.double",
    )
    assert [at.line for at in advice.at] == [27]
    assert (advice.change.step.low, advice.change.step.likely, advice.change.step.high) == GONE


@pytest.mark.parametrize(("share", "tweak"), [(1.0, "--float32"), (0.9, None)])
def test_names_the_tweak_where_all_parameters_are_wide(share, tweak):
    assert tip(doubles(share)).tweak == tweak


def test_without_such_a_line_the_model_is_named():
    assert [at.line for at in tip(doubles()).at] == [25]


def test_of_a_trace_alone_kernels_tell_and_no_tweak_is_named():
    advice = tip(DoublePrecision(0.93, 0.98, GONE))
    assert advice.because == ("93% of computing is in float64", "computing is 98% of the step")
    assert (advice.tweak, advice.at) == (None, ())


@pytest.mark.parametrize(
    "found",
    [
        pytest.param(doubles(0.49), id="most-is-narrow"),
        pytest.param(doubles(computing=0.09), id="little-computing"),
    ],
)
def test_is_silent(found):
    assert tip(found) is None
