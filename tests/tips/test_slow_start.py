from __future__ import annotations

from dataclasses import replace

import pytest

from perfdoctor.tips.slow_start import slow_start as tip
from tests.support.host_facts import starting


def test_divides_the_start_and_names_the_line():
    advice = tip(starting())
    assert advice is not None
    assert advice.because == (
        "training began after 40 s: 30% of the time that the process ran",
        (
            "until torch is imported 3.0 s, the script's own lines 25.0 s, computing the first step 2.0 s,"
            " building the model 1.0 s"
        ),
        "line 12 takes 25 s (the script's own lines): `prepare(texts)`",
        "this saves time at each start, not in the steps",
    )
    assert [at.line for at in advice.at] == [12]
    assert (advice.change, advice.about) == (None, "start")


def test_waiting_for_a_core_is_told_apart():
    crowded = replace(starting(), waiting_s=60.0)
    assert tip(crowded).because[1].startswith("until torch is imported 3.0 s, no core was free 60.0 s, ")


@pytest.mark.parametrize(
    ("kind", "words"),
    [("compile", "compiling"), ("import", "further imports"), ("batch", "starting the loader")],
)
def test_tells_what_kind_of_start_it_is(kind, words):
    assert f"({words})" in tip(starting(kind=kind)).because[2]


@pytest.mark.parametrize(
    "facts",
    [
        pytest.param(starting(line=9.9), id="no-line-takes-long"),
        pytest.param(starting(share=0.09), id="little-of-a-long-run"),
    ],
)
def test_is_silent(facts):
    assert tip(facts) is None


def test_fires_at_the_thresholds():
    assert tip(starting(line=10.0, share=0.1)) is not None
