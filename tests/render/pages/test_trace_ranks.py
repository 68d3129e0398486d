from __future__ import annotations

import re
from dataclasses import replace

from perfdoctor.diagnosis import trace_report
from perfdoctor.render.pages import trace_ranks
from perfdoctor.trace.results import Collectives
from tests.support import drawn as drawing
from tests.support.rank_traces import host_only, rank, step, unmarked

NAMES = ("ncclDevKernel_AllReduce_Sum_f32_RING_LL",) * 5


def one(number, compute, comm, **given):
    """A rank of five steps of 100 ms, with one collective in each."""
    steps = tuple(step(entry, compute=compute, comm=comm, **given) for entry in range(3, 8))
    collectives = Collectives(NAMES, (1e3 * comm,) * 5)
    return replace(rank(steps), rank=number, collectives=collectives)


def drawn(*ranks, width=80):
    return drawing.drawn(trace_ranks.sections(trace_report.report(ranks)), width)


def rows(page):
    lines = page.splitlines()
    head = next(place for place, line in enumerate(lines) if line.strip().startswith("rank "))
    return lines[head + 1 : head + 3]


def test_the_rank_that_others_wait_for_is_the_first_row_and_named_above_with_its_excess():
    page = drawn(one(0, 50, 40), one(1, 80, 10))
    assert "The others wait for rank 1: its computing takes longer" in page
    assert "the last to start 5 of 5 collectives; 100% of all wait time" in page
    assert "30 ms a step longer on compute than the other rank" in page
    late, waiting = rows(page)
    assert late.split()[:6] == ["1", "straggler", "100", "ms", "0", "s"]
    assert waiting.split()[:5] == ["0", "100", "ms", "30", "ms"]


def test_a_straggler_without_a_rank_is_named_as_its_row_is():
    page = drawn(*(replace(entry, rank=None) for entry in (one(0, 50, 40), one(1, 80, 10))))
    assert "The others wait for file 2: its computing takes longer" in page
    assert re.search("^  file 2 +straggler", page, re.MULTILINE)


def test_what_takes_longer_is_a_steps_only_where_all_mark_steps():
    page = drawn(one(0, 50, 40), replace(one(1, 80, 10), steps=()))
    assert "it spends 150 ms longer on compute than the other rank" in page


def test_strips_show_what_the_device_does_and_what_it_idles_for():
    page = drawn(one(0, 40, 20, idle={"data_wait": 30}), one(1, 40, 20, idle={"data_wait": 30}))
    strip = rows(page)[0].split("  ")[-1]
    assert list(dict.fromkeys(strip)) == ["c", "d", "h", "t"]
    assert "c compute" in page
    assert "d idle: data wait" in page
    assert "The others wait" not in page


def test_where_nothing_could_be_matched_communication_is_not_split():
    odd = replace(one(1, 50, 40), collectives=Collectives(NAMES[:3], (1e3,) * 3))
    page = drawn(one(0, 50, 40), odd)
    assert "communication" in page
    assert "waiting" not in page
    assert "last" not in page


def test_traces_of_the_cpu_have_strips_of_the_host():
    page = drawn(replace(host_only(data=40), rank=0), replace(host_only(data=10), rank=1))
    assert "d in DataLoader  o in operators" in page
    assert "left out" not in page
    assert all(line.count("d") > 2 for line in rows(page))


def test_a_file_without_a_rank_is_called_by_its_place():
    page = drawn(one(0, 50, 40), replace(one(1, 50, 40), rank=None))
    assert re.search("^  file 2 ", page, re.MULTILINE)


def test_without_marked_steps_times_are_those_of_the_whole():
    assert " time " in drawn(unmarked(), replace(unmarked(), rank=1))
    assert " step " in drawn(one(0, 50, 40), one(1, 50, 40))
