from __future__ import annotations

import pytest

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


def test_the_device_may_take_half_as_long_for_it():
    gain = facts.gain(judged(round_trip(idle=90, copying=10, computing=80)))
    assert (gain.low, gain.likely, gain.high) == pytest.approx((1 / 0.9, 1 / 0.8, 1 / 0.8))


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
