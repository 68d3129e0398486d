from __future__ import annotations

from dataclasses import replace

import pytest

from perfdoctor.tips.blocking_copies import blocking_copies as tip
from tests.support import facts
from tests.support.rank_traces import wait

PINNED = {"op": "aten::to", "direction": "HtoD", "host_memory": "pinned"}


def test_names_the_lines_that_wait_costliest_first():
    advice = tip(
        facts.waits(wait(**PINNED, ms=20, idle=15, line=12), wait(**PINNED, ms=50, idle=30, line=30))
    )
    assert advice.because == (
        "the host waits 14.0% of the time for copies from pinned memory",
        "the device idles 9.0% of the time because of these waits",
        "aten::to at line 30: 10.00 ms a step",
        "aten::to at line 12: 4.00 ms a step",
    )
    assert [at.line for at in advice.at] == [30, 12]
    assert advice.tweak == "--non-blocking"


def test_what_the_script_pins_itself_is_for_the_user_to_change():
    waits = replace(facts.waits(wait(**PINNED, ms=50, idle=30)), loader_pins=False)
    assert tip(waits).tweak is None


def test_the_host_gets_ahead_by_no_more_than_it_waited():
    gain = facts.gain(tip(facts.waits(wait(**PINNED, ms=25, idle=100))))
    assert gain.likely == pytest.approx(1 / 0.95)
    assert gain.high == pytest.approx(1 / 0.8)


@pytest.mark.parametrize(
    "call",
    [
        pytest.param(wait(**PINNED | {"host_memory": "pageable"}, ms=100, idle=50), id="pageable-memory"),
        pytest.param(wait(**PINNED | {"host_memory": None}, ms=100, idle=50), id="unknown-memory"),
        pytest.param(wait(**PINNED | {"direction": "DtoH"}, ms=100, idle=50), id="to-the-host"),
        pytest.param(wait(**PINNED, ms=400, idle=14.9), id="the-device-was-busy"),
        pytest.param(wait(**PINNED, ms=14.9, idle=100), id="hardly-waited"),
        pytest.param(wait(**PINNED, ms=100, idle=50, count=4), id="not-in-every-step"),
    ],
)
def test_is_silent(call):
    assert tip(facts.waits(call)) is None
