from __future__ import annotations

from dataclasses import replace

import pytest

from perfdoctor.model.measured import ConstantCopyLine, Location
from perfdoctor.tips.pageable_memory_copies import pageable_memory_copies as tip
from tests.support import facts
from tests.support.rank_traces import copy, site

LINE = Location("train.py", 30, "main")
PAGEABLE = copy("HtoD", "pageable", 100, count=10, size=60_000_000)


def test_says_how_much_of_the_time_copies_from_pageable_memory_take_and_how_fast_they_are():
    advice = tip(facts.device(exposed_copy=0.2), facts.copies(PAGEABLE, at=(LINE,)))
    assert advice.because == (
        "20.0% of the time goes into copies from pageable memory that computation does not overlap",
        "10 such copies, 6.0 GB/s",
    )
    assert advice.at == (LINE,)
    assert advice.tweak == "--pin-memory --non-blocking"
    assert "dataloader_pin_memory=True" in advice.arguments


def test_at_best_the_copies_hide_behind_computing_altogether():
    gain = facts.gain(tip(facts.device(exposed_copy=0.2), facts.copies(PAGEABLE)))
    assert gain.high == pytest.approx(1 / 0.8)
    assert gain.likely == pytest.approx(1 / (1 - 0.2 * (1 - 6 / 20)))


def test_where_pageable_copies_are_fast_already_pinned_ones_are_twice_as_fast():
    fast = copy("HtoD", "pageable", 100, count=10, size=200_000_000)
    assert facts.gain(tip(facts.device(exposed_copy=0.2), facts.copies(fast))).likely == pytest.approx(
        1 / 0.9
    )


def test_the_device_that_idles_beside_a_blocking_copy_counts():
    idle = tip(facts.device(exposed_copy=0.1, copy=0.1), facts.copies(PAGEABLE, share=0.1))
    assert facts.gain(idle).high == pytest.approx(1 / 0.8)
    assert "while they block the host" in idle.because[-1]


def test_only_the_pageable_part_of_the_copies_is_counted():
    mixed = facts.copies(PAGEABLE, copy("HtoD", "pinned", 300), share=0.4)
    assert facts.gain(tip(facts.device(exposed_copy=0.4), mixed)).high == pytest.approx(1 / 0.9)


def test_many_small_ones_are_better_packed_than_pinned():
    small = copy("HtoD", "pageable", 10, count=500, size=1_000)
    alone = facts.copies(small, sites=(site("HtoD", "pageable", count=500, size=1_000, line=13),))
    assert tip(facts.device(exposed_copy=0.1, copy=0.1), alone) is None
    both = replace(small, count=510, bytes=small.bytes + PAGEABLE.bytes, us=small.us + PAGEABLE.us)
    sites = (alone.sites[0], site("HtoD", "pageable", ms=100, count=10, size=60_000_000, line=14))
    advice = tip(facts.device(exposed_copy=0.22), facts.copies(both, share=0.22, sites=sites))
    assert advice.because[:2] == (
        "20.0% of the time goes into copies from pageable memory that computation does not overlap",
        "10 such copies, 6.0 GB/s",
    )
    assert [at.line for at in advice.at] == [14]


def test_what_never_changes_is_better_kept_on_the_device():
    """Of 100 ms in five steps, 80 ms copy constants."""
    basis = ConstantCopyLine(replace(LINE, line=44), "pageable", 1.6, 96_000_000, 0.016)
    sites = (
        site("HtoD", "pageable", ms=80, count=8, size=60_000_000, line=44),
        site("HtoD", "pageable", ms=20, count=2, size=60_000_000, line=30),
    )
    copies = replace(facts.copies(PAGEABLE, at=(LINE, basis.at), sites=sites), constants=(basis,))
    advice = tip(facts.device(exposed_copy=0.2, copy=0.1), copies)
    assert advice.because[:2] == (
        "4.0% of the time goes into copies from pageable memory that computation does not overlap",
        "2 such copies, 6.0 GB/s",
    )
    assert [at.line for at in advice.at] == [30]
    assert facts.gain(advice).high == pytest.approx(1 / (1 - 0.04 - 0.02))
    no_places = replace(copies, sites=())
    assert tip(facts.device(exposed_copy=0.2), no_places).at == (LINE,)
    assert (
        tip(facts.device(exposed_copy=0.2), replace(copies, constants=(replace(basis, seconds=0.02),)))
        is None
    )
    pinned = replace(copies, constants=(replace(basis, host_memory="pinned"),))
    assert [at.line for at in tip(facts.device(exposed_copy=0.2), pinned).at] == [44, 30]


def test_a_few_small_ones_are_pinned_as_any():
    few = copy("HtoD", "pageable", 10, count=35, size=1_000)
    assert tip(facts.device(exposed_copy=0.1, copy=0.1), facts.copies(few, share=0.1)) is not None


def test_names_the_lines_by_what_the_device_waits_for_them():
    sites = (
        site("HtoD", "pageable", ms=5, line=40),
        site("HtoD", "pageable", ms=5, idle=10, line=44),
        site(ms=99),
    )
    advice = tip(facts.device(exposed_copy=0.2), facts.copies(copy("HtoD", "pageable", 20), sites=sites))
    assert advice.because[-2:] == (
        "aten::to at line 44: 3.00 ms a step",
        "aten::to at line 40: 1.00 ms a step",
    )
    assert [at.line for at in advice.at] == [44, 40]


@pytest.mark.parametrize(
    "copies",
    [
        pytest.param(facts.copies(copy("HtoD", "pinned", 100)), id="pinned"),
        pytest.param(facts.copies(copy("DtoH", "pageable", 100)), id="the-other-way"),
        pytest.param(facts.copies(PAGEABLE, share=0.01), id="hidden-behind-computing"),
    ],
)
def test_is_silent(copies):
    assert tip(facts.device(), copies) is None
