from __future__ import annotations

import pytest

from perfdoctor.model.concluded import Bottleneck
from perfdoctor.tips.round_trips import round_trips as tip
from tests.support import facts
from tests.support.rank_traces import copy, round_trip

COPIED = copy("DtoH", "pageable", 5)


def judged(*round_trips):
    return tip(facts.copies(COPIED, round_trips=round_trips))


def test_names_both_lines_and_the_time_on_the_host():
    advice = judged(round_trip(idle=50, copying=5))
    assert advice.because == (
        "11.0% of the time the device waits for tensors to come back from the host",
        "5 times, 1.00 MB leave through aten::to at line 30 and come back at line 33",
    )
    assert [at.line for at in advice.at] == [30, 33]


def test_the_way_out_and_back_is_transfer_whatever_takes_longest_of_it():
    assert judged(round_trip(idle=50, copying=5)).bottleneck is None
    assert tip.__tip__.bottleneck is Bottleneck.TRANSFER


def test_both_copies_go_in_any_case_and_the_wait_at_best():
    gain = facts.gain(judged(round_trip(idle=50, copying=50)))
    assert (gain.low, gain.likely, gain.high) == pytest.approx((1 / 0.9, 1 / 0.8, 1 / 0.8))


@pytest.mark.parametrize(
    "trip",
    [
        pytest.param(round_trip(idle=10, copying=4.9), id="short"),
        pytest.param(round_trip(same=False), id="something-else-comes-back"),
        pytest.param(round_trip(idle=50, computing=25), id="operators-work-on-it"),
        pytest.param(round_trip(count=4), id="not-in-every-step"),
    ],
)
def test_is_silent(trip):
    assert judged(trip) is None
