from __future__ import annotations

from dataclasses import replace

import pytest

from perfdoctor.tips.worker_memory_growth import worker_memory_growth as tip
from tests.support import facts
from tests.support.load_facts import growth, memory

LOADER = facts.loader(workers=2)


def test_says_how_much_and_how_soon_it_ends():
    advice = tip(LOADER, growth(), memory())
    assert advice is not None
    assert advice.because == (
        "the memory of 2 workers grew by 200 MB in 100 s",
        "it was 200 MB at first",
        "it still grows by 2 MB/s: 8 GB are free, enough for 1.1 hours at this rate",
        "the dataset is train.Data",
    )
    assert advice.change is None
    assert advice.at == (facts.LOADER_LINE,)


@pytest.mark.parametrize(
    "grown",
    [
        pytest.param(growth(seconds=29, late=4e6), id="too-short-to-tell"),
        pytest.param(growth(first=1e9, last=1.19e9), id="a-small-share"),
        pytest.param(growth(first=50e6, last=113e6), id="little-in-all"),
        pytest.param(growth(late=0.9e6), id="it-flattens-out"),
        pytest.param(growth(last=100e6, late=-1e6), id="it-shrinks"),
    ],
)
def test_is_silent(grown):
    assert tip(LOADER, grown, memory()) is None


def test_growth_ends_with_workers_that_start_anew_in_each_epoch():
    advice = tip(replace(LOADER, epochs=3), growth(), memory())
    assert advice.because[2] == "it still grows by 2 MB/s, until the workers of the epoch end"
    assert (
        "1.1 hours" in tip(replace(LOADER, epochs=3, persistent_workers=True), growth(), memory()).because[2]
    )
