from __future__ import annotations

from dataclasses import replace

import pytest

from perfdoctor.facts.device.created_tensors import created_tensors
from perfdoctor.model.concluded import Bottleneck
from perfdoctor.model.measured import Phase, StackFacts
from perfdoctor.tips.tensors_created_on_host import tensors_created_on_host as tip
from tests.support import facts
from tests.support.rank_traces import copy, site

COPIED = copy("HtoD", "pageable", 5)
LATE = facts.device(host_late=0.9)


def judged(*sites, lines=(), copying=(), device=None, unprofiled=1.0):
    stacks = StackFacts(1000, "py-spy", {Phase.OTHER: tuple(lines), Phase.HOST_TO_DEVICE: tuple(copying)})
    copies = replace(facts.copies(COPIED, sites=sites), unprofiled=unprofiled)
    return tip(created_tensors(facts.step(), copies, stacks, device))


def test_names_what_is_made_and_where():
    advice = judged(site(made_by="aten::zeros", ms=5, idle=20, line=12), site(ms=100, idle=100))
    assert advice.because == (
        "50 tensors are created on the host and copied to the device",
        "the device idles 4.0% of the time meanwhile",
        "their copies take 1.0% that nothing hides",
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
    assert few.bottleneck is Bottleneck.HOST


def test_a_copy_takes_the_host_as_long_as_it_waits_for_it():
    made = site(made_by="aten::zeros", ms=5, idle=20, line=12)
    drawn, copied = facts.line(0.6, 12, "data"), facts.line(0.06, 12)
    advice = judged(made, lines=(drawn,), copying=(copied, facts.line(0.2, 30)), device=LATE)
    assert "their copies take 6.0% that nothing hides" in advice.because
    assert facts.gain(advice).likely == pytest.approx(1 / 0.34)
    assert (advice.bottleneck, advice.also) == (Bottleneck.DATA, (Bottleneck.TRANSFER,))
    few = judged(made, lines=(drawn,), copying=(facts.line(0.06, 12, samples=4),), device=LATE)
    assert facts.gain(few).likely == pytest.approx(1 / 0.39)


def test_no_more_goes_than_the_device_waits():
    made = site(made_by="aten::zeros", ms=5, idle=20, line=12)
    drawn, copied = facts.line(0.6, 12, "data"), facts.line(0.3, 12)
    computing = facts.device(host_late=0.25)
    advice = judged(made, lines=(drawn,), copying=(copied,), device=computing)
    assert facts.gain(advice).likely == pytest.approx(1 / (1 - 0.25))


@pytest.mark.parametrize(("on_host", "low"), [(0.6, 0.2), (0.3, 0.15), (0.1, 0.1)])
def test_a_host_that_creates_for_longer_than_the_device_idles_surely_keeps_it_waiting(on_host, low):
    made = site(made_by="aten::zeros", ms=5, idle=200, line=12)
    device = facts.device(host_late=0.19, exposed_copy=0.01)
    gain = facts.gain(judged(made, lines=(facts.line(on_host, 12, "data"),), device=device))
    assert (gain.low, gain.likely) == pytest.approx((1 / (1 - low), 1 / 0.8))


def test_what_a_profiler_adds_to_the_idle_time_is_taken_off():
    made = site(made_by="aten::zeros", ms=5, idle=200, line=12)
    advice = judged(made, unprofiled=0.5)
    assert "the device idles 20.0% of the time meanwhile" in advice.because
    assert facts.gain(advice).likely == pytest.approx(1 / (1 - 0.2 - 0.01))


def test_a_window_says_no_more_than_the_device_waits_in_all():
    made = site(made_by="aten::zeros", ms=5, idle=200, line=12)
    advice = judged(made, device=facts.device(host_late=0.24, exposed_copy=0.01))
    assert "the device idles 24.0% of the time meanwhile" in advice.because
    assert facts.gain(advice).likely == pytest.approx(1 / (1 - 0.24 - 0.01))


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
