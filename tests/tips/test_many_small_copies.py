from __future__ import annotations

from dataclasses import replace

import pytest

from perfdoctor.model.concluded import Bottleneck
from perfdoctor.tips.many_small_copies import many_small_copies as tip
from tests.support import facts
from tests.support.rank_traces import copy, site

SMALL = copy("HtoD", "pinned", 4, count=500, size=1_000)


def test_counts_the_small_copies_of_a_step_and_their_share():
    advice = tip(facts.copies(SMALL, share=0.2))
    assert advice.because == (
        "100 small copies per step take 20.0% of the time, with nothing else running",
        "on average each has 1.0 kB and takes 8.0 µs",
    )


def test_names_the_lines_that_make_them():
    sites = (site(ms=1, idle=4, size=1_000, line=21), site(ms=4, size=2_000, line=8), site(ms=50, line=3))
    advice = tip(facts.copies(SMALL, sites=sites))
    assert advice.because[3:] == (
        "aten::to at line 21: 1.00 ms a step",
        "aten::to at line 8: 0.80 ms a step",
    )
    assert [at.line for at in advice.at] == [21, 8]


def seen(*sites, unprofiled=0.45, timed=0.45):
    """Copies whose bytes take next to nothing, as a window saw the device idle beside them."""
    copies = facts.copies(copy("HtoD", "pageable", 0.5, count=640, size=1_000), share=0.02, sites=sites)
    return replace(copies, unprofiled=unprofiled, timed=timed)


MADE = site("HtoD", "pageable", ms=0.5, idle=475, count=640, size=1_000, line=13)
LOSSES = site("DtoH", "pinned", ms=0.5, idle=475, count=640, size=4, line=19)


def test_what_making_them_costs_the_host_counts_as_far_as_the_device_idles():
    """As measured beside an H200: 128 copies of 1 kB a step, and one copy is 2.15 times as fast."""
    advice = tip(seen(MADE))
    assert advice.because == (
        "128 small copies per step take 2.0% of the time, with nothing else running",
        "the device idles another 42.8% of the time while the host makes them",
        "on average each has 1.0 kB and takes 0.8 µs",
        "aten::to at line 13: 42.85 ms a step",
    )
    gain = facts.gain(advice)
    assert 1.2 < gain.low < 1.5 < gain.likely < gain.high < 1 / 0.55


def test_it_is_the_hosts_time_where_no_timer_saw_it_copy():
    assert tip(seen(MADE)).bottleneck is None
    assert tip(seen(MADE, timed=0.0)).bottleneck is Bottleneck.HOST
    assert tip(facts.copies(SMALL, share=0.2)).bottleneck is None


def test_a_large_batch_beside_them_hides_them_not():
    batch = site("HtoD", "pageable", ms=50, count=5, size=50_000_000, line=12)
    assert tip(seen(batch, MADE)).because[0].startswith("128 small copies")


def test_packing_them_cannot_bring_more_than_their_time():
    gain = facts.gain(tip(facts.copies(SMALL, share=0.2)))
    assert 1 < gain.low < gain.likely < gain.high < 1 / 0.8


@pytest.mark.parametrize(
    "copies",
    [
        pytest.param(facts.copies(copy("HtoD", "pinned", 4, count=500, size=10**6)), id="large"),
        pytest.param(facts.copies(copy("HtoD", "pinned", 4, count=20, size=1_000)), id="few"),
        pytest.param(facts.copies(SMALL, share=0.01), id="hidden"),
        pytest.param(seen(LOSSES), id="the-host-reads-values"),
        pytest.param(seen(LOSSES, replace(MADE, count=35)), id="few-that-the-host-makes"),
        pytest.param(seen(replace(MADE, idle_us=1e3)), id="the-device-is-busy-meanwhile"),
        pytest.param(seen(replace(MADE, bytes=640 * 1_000_000)), id="of-many-bytes"),
    ],
)
def test_is_silent(copies):
    assert tip(copies) is None
