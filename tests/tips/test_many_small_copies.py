from __future__ import annotations

import pytest

from perfdoctor.tips.many_small_copies import many_small_copies as tip
from tests import facts
from tests.ranktraces import copy

SMALL = copy("HtoD", "pinned", 4, count=500, size=1_000)


def test_counts_the_small_copies_of_a_step_and_their_share():
    advice = tip(facts.copies(SMALL, share=0.2))
    assert advice.because == (
        "100 small copies a step take 20.0% of the time, hidden by nothing",
        "their mean is 1.0 kB and 8.0 µs",
    )


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
