from __future__ import annotations

import pytest

from perfdoctor.facts.device.created_tensors import created_tensors
from perfdoctor.model.concluded import Bottleneck
from perfdoctor.tips.tensors_created_on_host import tensors_created_on_host as tip
from tests.support import facts
from tests.support.rank_traces import copy, site

COPIED = copy("HtoD", "pageable", 5)


def judged(*sites, lines=()):
    return tip(created_tensors(facts.step(), facts.copies(COPIED, sites=sites), facts.stacks(*lines)))


def test_names_what_is_made_and_where():
    advice = judged(site(made_by="aten::zeros", ms=5, idle=20, line=12), site(ms=100, idle=100))
    assert advice.because == (
        "50 tensors are created on the host and copied to the device",
        "the device idles 4.0% of the time meanwhile",
        "their exposed copies take 1.0%",
        "created by aten::zeros at line 12",
    )
    assert [at.line for at in advice.at] == [12]
    assert advice.same_result


def test_all_of_that_time_goes_and_no_more():
    gain = facts.gain(judged(site(made_by="aten::zeros", ms=5, idle=20)))
    assert (gain.low, gain.likely, gain.high) == pytest.approx((1 / 0.975, 1 / 0.95, 1 / 0.95))


def test_stack_samples_tell_how_long_creating_takes_without_a_profiler():
    made = site(made_by="aten::zeros", ms=5, idle=20, line=12)
    advice = judged(made, lines=(facts.line(0.6, 12, "data"), facts.line(0.2, 30, "data")))
    assert "60.0% of the time goes into creating them" in advice.because
    assert facts.gain(advice).likely == pytest.approx(1 / 0.39)
    assert advice.bottleneck is Bottleneck.DATA
    few = judged(made, lines=(facts.line(0.6, 12, "data", samples=4),))
    assert few == judged(made)
    assert few.bottleneck is None


@pytest.mark.parametrize("operator", ["aten::randn", "aten::normal_", "aten::rand_like"])
def test_random_numbers_differ_on_the_device(operator):
    assert not judged(site(made_by=operator, ms=5, idle=20)).same_result


@pytest.mark.parametrize(
    "made",
    [
        pytest.param(site(ms=50, idle=50), id="a-batch"),
        pytest.param(site(made_by="aten::zeros", ms=4, idle=10.9), id="small"),
        pytest.param(site(made_by="aten::zeros", ms=50, idle=50, count=4), id="not-in-every-step"),
    ],
)
def test_is_silent(made):
    assert judged(made) is None
