from __future__ import annotations

import pytest

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
    assert advice.because[2:] == (
        "aten::to at line 21: 1.00 ms a step",
        "aten::to at line 8: 0.80 ms a step",
    )
    assert [at.line for at in advice.at] == [21, 8]


def test_packing_them_cannot_bring_more_than_their_time():
    gain = facts.gain(tip(facts.copies(SMALL, share=0.2)))
    assert 1 < gain.low < gain.likely < gain.high < 1 / 0.8


@pytest.mark.parametrize(
    "copies",
    [
        pytest.param(facts.copies(copy("HtoD", "pinned", 4, count=500, size=10**6)), id="large"),
        pytest.param(facts.copies(copy("HtoD", "pinned", 4, count=20, size=1_000)), id="few"),
        pytest.param(facts.copies(SMALL, share=0.01), id="hidden"),
    ],
)
def test_is_silent(copies):
    assert tip(copies) is None
