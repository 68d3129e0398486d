from __future__ import annotations

from dataclasses import replace

import pytest

from perfdoctor.diagnosis.trace_steadiness import odd_pause, odd_step, spread
from tests.support.rank_traces import host_only, times, unmarked


@pytest.mark.parametrize(("lengths_us", "named"), [((10, 10, 10, 30), True), ((10, 10, 10, 29), False)])
def test_a_step_is_odd_from_three_usual_ones_on(lengths_us, named):
    found = odd_step([(length_us, f"step {number}") for number, length_us in enumerate(lengths_us)])
    assert found == (["step 3 alone takes 50% of the time"] if named else [])


def test_a_long_step_among_many_decides_nothing():
    assert odd_step([(10.0, "usual")] * 20 + [(60.0, "long")]) == []


def test_a_pause_of_a_quarter_of_the_time_is_told():
    traced = unmarked(times=times(span=100))
    assert odd_pause(replace(traced, pause_us=24_900.0)) == []
    assert "one pause of 25 ms takes 25% of the time" in odd_pause(replace(traced, pause_us=25_000.0))[0]


def test_without_a_device_the_time_is_what_the_trace_covers():
    traced = replace(host_only(), begin_ns=0, end_ns=80_000_000, pause_us=40_000.0)
    assert "one pause of 40 ms takes 50% of the time" in odd_pause(traced)[0]
    assert odd_pause(replace(traced, end_ns=0)) == []


def test_spread_is_relative():
    assert spread([1.0, 3.0]) == 0.5
    assert spread([0.0]) == 0.0
