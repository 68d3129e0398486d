from __future__ import annotations

import pytest

from perfdoctor.model.concluded import Bottleneck
from perfdoctor.tips.cpu_fallback import cpu_fallback as tip
from tests.support import facts
from tests.support.rank_traces import copy, round_trip

COPIED = copy("DtoH", "pageable", 5)


def judged(*round_trips):
    return tip(facts.copies(COPIED, round_trips=round_trips))


def test_names_the_operators_and_both_lines():
    advice = judged(round_trip(idle=50, copying=5, computing=40, same=False))
    assert advice.because == (
        "11.0% of the time the device waits for operators that run on the host",
        "aten::sort between a copy to the host at line 30 and one back at line 33, 5 times",
    )
    assert [at.line for at in advice.at] == [30, 33]


def test_the_device_may_take_half_as_long_for_it_and_likely_takes_a_twentieth():
    gain = facts.gain(judged(round_trip(idle=90, copying=10, computing=80)))
    assert (gain.low, gain.likely, gain.high) == pytest.approx((1 / 0.9, 1 / (0.8 + 0.008), 1 / 0.8))


def test_an_operator_is_launched_however_little_it_computes():
    gain = facts.gain(judged(round_trip(idle=90, copying=10, computing=80, count=1000)))
    assert (gain.likely, gain.high) == pytest.approx((1 / (0.8 + 0.02), 1 / 0.8))


def test_it_is_the_hosts_time_but_where_copies_take_as_long():
    assert judged(round_trip(idle=50, copying=5, computing=40)).bottleneck is None
    assert tip.__tip__.bottleneck is Bottleneck.HOST
    assert judged(round_trip(idle=50, copying=50, computing=40)).bottleneck is Bottleneck.TRANSFER


def test_a_sort_on_the_host_that_takes_most_of_a_step_is_worth_most_of_it():
    """As measured beside an H200: 6.0 times as fast on the device, and copies are 3 % of the step."""
    sort = round_trip(idle=8.46 * 5 * 10, copying=0.18 * 5 * 10, computing=7.83 * 5 * 10)
    gain = facts.gain(judged(sort))
    assert 1.5 < gain.low < 4.5 < gain.likely < 6.0 < gain.high


@pytest.mark.parametrize(
    "way",
    [
        pytest.param(round_trip(idle=50, computing=24.9), id="mostly-not-in-operators"),
        pytest.param(round_trip(idle=10, copying=4.9, computing=10), id="short"),
        pytest.param(round_trip(idle=1, copying=50, computing=1), id="only-copies"),
        pytest.param(round_trip(computing=50, count=4), id="not-in-every-step"),
    ],
)
def test_is_silent(way):
    assert judged(way) is None
