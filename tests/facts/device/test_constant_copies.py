from __future__ import annotations

from dataclasses import replace

import pytest

from perfdoctor.facts.device.constant_copies import (
    CopiedConstants,
    constant_copy_facts,
    copied_constants,
    of_window,
)
from perfdoctor.facts.device.device import CopyFacts
from perfdoctor.facts.user_source.parse import Sources
from perfdoctor.model.measured import ConstantCopyLine, Location
from perfdoctor.model.missing import Missing
from perfdoctor.runs.types import RankRecords
from tests.support import facts
from tests.support.rank_traces import copy, site
from tests.support.records import source_of

TRAIN = "/home/me/train.py"
SOURCES = Sources(source_of(train="basis = self.basis.to(x.device)\nedges = self.edges.cuda()"))
NO_WINDOW = Missing("no window")
MB = 1_000_000


def look(number, step_s=0.1):
    return {"event": "constant_copies_look", "look": number, "step_s": step_s, "copies": 3, "constants": 2}


def line(look, number=1, **fields):
    return {
        "event": "constant_copies_line",
        "look": look,
        "copies": 2,
        "bytes": 40 * MB,
        "seconds": 0.02,
        "pinned": False,
        "at": {"file": TRAIN, "line": number},
        **fields,
    }


def found(*events):
    return copied_constants(RankRecords(0, None, None, events), SOURCES)


def test_figures_are_medians_over_the_pairs_with_the_line_as_it_stands():
    constants = found(look(1), look(2), look(3), line(1), line(2, seconds=0.01), line(3, seconds=0.05))
    (told,) = constants.lines
    assert told.at.text == "basis = self.basis.to(x.device)"
    assert (told.host_memory, told.count, told.bytes, told.seconds) == ("pageable", 2, 40 * MB, 0.02)
    assert (constants.samples, constants.timed) == (3, pytest.approx(0.2))


def test_all_lines_of_a_step_are_timed_together():
    constants = found(look(1), look(2), *(line(pair, number) for pair in (1, 2) for number in (1, 2)))
    assert constants.timed == pytest.approx(0.4)
    assert [told.at.line for told in constants.lines] == [1, 2]


def test_a_line_that_copied_the_same_in_a_few_pairs_only_is_none():
    assert found(look(1), look(2), look(3), line(2)).lines == ()


def test_one_pair_tells_nothing():
    assert found(look(1), line(1)) == CopiedConstants()
    assert found(look(1), look(2)) == CopiedConstants(samples=2)


def test_only_what_is_all_pinned_is_pinned():
    assert (
        found(look(1), look(2), line(1, pinned=True), line(2, pinned=True)).lines[0].host_memory == "pinned"
    )
    assert found(look(1), look(2), line(1), line(2, pinned=True)).lines[0].host_memory == "pageable"


BASIS = ConstantCopyLine(Location("train.py", 21, "main"), "pageable", 2, 4 * MB, 0.02)
EDGES = replace(BASIS, at=Location("train.py", 30, "main"), bytes=2 * MB)
# In five steps: 10 copies of 4 MB, which take 100 ms, and as many of the batches.
PAGEABLE = copy("HtoD", "pageable", 100, count=10, size=4 * MB)
BATCHES = copy("HtoD", "pinned", 20, count=10, size=4 * MB)


def test_of_a_windows_copies_they_take_as_much_as_of_the_bytes_from_such_memory():
    copies = facts.copies(PAGEABLE, BATCHES)
    (told,) = of_window(copies, CopiedConstants((BASIS,), 4))
    assert (told.at, told.bytes, told.seconds) == (BASIS.at, 4 * MB, pytest.approx(0.01))
    (pinned,) = of_window(copies, CopiedConstants((replace(BASIS, host_memory="pinned"),), 4))
    assert pinned.seconds == pytest.approx(0.002)


def test_they_take_no_more_than_a_window_saw():
    both = of_window(facts.copies(PAGEABLE), CopiedConstants((replace(BASIS, bytes=8 * MB), EDGES), 4))
    assert sum(told.seconds for told in both) == pytest.approx(0.02)
    assert both[0].seconds == pytest.approx(4 * both[1].seconds)
    assert of_window(facts.copies(BATCHES), CopiedConstants((BASIS,), 4)) == ()
    assert of_window(replace(facts.copies(PAGEABLE), judged_steps=None), CopiedConstants((BASIS,), 4)) == ()


def test_many_small_copies_are_none_of_them():
    mixed = copy("HtoD", "pageable", 110, count=510, size=4 * MB // 51)
    sites = (
        site("HtoD", "pageable", ms=10, count=500, size=1_000),
        site("HtoD", "pageable", ms=100, count=10),
    )
    (told,) = of_window(facts.copies(mixed, sites=sites), CopiedConstants((BASIS,), 4))
    assert told.seconds == pytest.approx(0.0101, rel=0.01)


STEP = facts.step(host_to_device=30, forward=70)


def cost(constants, device=NO_WINDOW, copies=NO_WINDOW):
    if isinstance(copies, CopyFacts):
        copies = replace(copies, constants=of_window(copies, constants))
    return constant_copy_facts(STEP, constants, device, copies)


def test_by_a_window_copies_that_nothing_hides_go_and_the_idling_beside_them():
    device = facts.device(exposed_copy=0.12, copy=0.12)
    told = cost(CopiedConstants((EDGES, BASIS), 4, 0.9), device, facts.copies(PAGEABLE, BATCHES, share=0.12))
    assert told.by_window
    assert [line.at.line for line in told.lines] == [21, 30]
    assert told.share.likely == told.share.high == pytest.approx(0.75 * 0.1 + 0.75 * 0.12)
    assert told.share.low == pytest.approx((0.75 * 0.1 + 0.75 * 0.12) / 2)


def test_without_a_window_the_timers_bound_what_the_bytes_tell():
    told = cost(CopiedConstants((BASIS,), 4, 0.5))
    assert not told.by_window
    assert (told.share.low, told.share.high) == (0.0, pytest.approx(0.3))
    assert told.share.likely == pytest.approx(4 * MB / 5e9 / 0.1)
    assert cost(CopiedConstants((BASIS,), 4, 0.01)).share.high == pytest.approx(0.01)


def test_without_such_copies_there_is_nothing():
    assert cost(CopiedConstants()) is None
    assert cost(CopiedConstants((BASIS,), 4), facts.device(), None) is None
    assert cost(CopiedConstants((BASIS,), 4), facts.device(), facts.copies(BATCHES)) is None
