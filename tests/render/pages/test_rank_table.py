from __future__ import annotations

import re
from dataclasses import replace

import pytest

from perfdoctor.diagnosis import outliers
from perfdoctor.render import terminal
from perfdoctor.render.pages import rank_table
from perfdoctor.render.pages.rank_table import FEW, NAMED, STRAGGLER, TRANSFER, WAIT, Kind, Row, shown
from tests.support import drawn as drawing

WORK = Kind("work", "x", "green")
REST = Kind("rest", ".", "red")


def row(name, work=80.0, waiting=15.0, moving=5.0, **given):
    """A rank's step in milliseconds."""
    seconds = {WORK: work / 1e3, WAIT: waiting / 1e3, TRANSFER: moving / 1e3}
    return Row(str(name), sum(seconds.values()), seconds, **given)


def drawn(rows, width=80, colour=False, **given):
    return drawing.drawn(shown(rows, **given), width, colour)


def names(page):
    """The ranks of the last table, from above."""
    lines = page[page.rindex("rank  ") :].splitlines()[1:]
    return [line.split()[0] for line in lines if re.match(r"  (\d+|file)", line)]


def strips(page):
    return [line.split("  ")[-1].strip() for line in page.splitlines() if re.match(r"  \d+ .*x{3}", line)]


def test_the_rank_that_does_most_itself_is_the_first_however_equal_the_steps_are():
    assert names(drawn([row(0, 80, 15), row(1, 94, 1), row(2, 85, 10)])) == ["1", "2", "0"]


def test_ranks_that_differ_by_chance_stand_in_the_order_of_their_numbers():
    assert names(drawn([row(0, 80.1), row(1, 80.3), row(2, 80.2)])) == ["0", "1", "2"]


def test_a_strip_is_as_long_as_its_share_of_the_longest_step_and_so_are_its_parts():
    long, short = strips(drawn([row(0, 160, 30, 10), row(1)]))
    assert len(short) == pytest.approx(len(long) / 2, abs=1)
    assert long.count("x") == pytest.approx(0.8 * len(long), abs=1)
    assert list(dict.fromkeys(long)) == ["x", "w", "t"]


def test_the_legend_names_what_takes_visible_time_and_nothing_else():
    rows = [row(0), row(1)]
    for one in rows:
        one.seconds[REST] = 1e-9
    assert drawn(rows).splitlines()[-2].strip() == "x work  w wait  t transfer"


def test_hosts_have_a_column_only_where_there_are_several():
    assert "node" not in drawn([row(0, node="a"), row(1, node="a")])
    assert "node" in drawn([row(0, node="a"), row(1, node="b")])


def test_steps_have_a_column_only_where_ranks_made_more_or_fewer():
    assert "steps" not in drawn([row(0, steps=400), row(1, steps=401)])
    assert "120" in drawn([row(0, steps=400), row(1, steps=120)])


def test_a_rank_without_a_step_is_the_last_and_says_so():
    page = drawn([Row("0", 0.0, {}, steps=0, last=0.0, remark="no step"), row(1, steps=9, last=0.5)])
    assert names(page) == ["1", "0"]
    assert page.count("no step") == 1


@pytest.mark.parametrize("world", [1, 2, FEW, FEW + 1, 1024])
@pytest.mark.parametrize("width", [40, 80, 200])
def test_no_line_is_wider_than_the_page_and_many_ranks_fit_a_screen(world, width):
    rows = [row(number, node=f"gpu-{number // 8}.example.org", last=0.1) for number in range(world)]
    lines = drawn(rows, width).splitlines()
    assert max(map(len, lines)) <= terminal.columns(width)
    assert len(lines) <= 24


def test_in_little_room_figures_give_way_to_the_strips():
    rows = [row(0, last=0.9), row(1, last=0.1)]
    assert "90%" in drawn(rows, 80)
    assert "90%" not in drawn(rows, 40)
    assert all(len(strip) >= 10 for strip in strips(drawn(rows, 40)))


def test_of_many_ranks_each_part_of_the_step_has_percentiles_and_the_worst_a_name():
    page = drawn([row(number, work=100 + number) for number in range(1, 101)])
    assert re.search(r"x work +105 ms +150 ms +195 ms +200 ms +100\n", page)
    assert re.search(r"t transfer +5 ms +5 ms +5 ms +5 ms\n", page)


def test_of_many_ranks_those_without_a_step_are_counted():
    none = [Row(str(number), 0.0, {}, remark="no step") for number in range(3)]
    page = drawn([*none, *(row(number) for number in range(3, 30))])
    assert "3 ranks: no step" in page
    assert "No rank stands out" in page
    assert "20 ranks: no step" in drawn([replace(none[0], name=str(number)) for number in range(20)])


def test_of_many_even_ranks_none_stands_out_and_the_median_one_is_shown():
    page = drawn([row(number, work=80 + number % 10 / 10) for number in range(100)])
    assert "No rank stands out" in page
    assert len(names(page)) == 1
    assert "median" in page


def test_a_rank_beyond_the_fence_stands_out_and_one_just_within_it_does_not():
    rows = [row(number, work=80 + number % 10) for number in range(100)]
    quarter, middle_half = 80 + 7, 80 + 7 - (80 + 2)
    fence = quarter + outliers.FAR_OUT * middle_half
    assert "No rank stands out" in drawn([*rows, row(100, work=fence - 0.1)])
    assert names(drawn([*rows, row(100, work=fence + 1)]))[0] == "100"


def test_where_all_others_are_alike_a_rank_stands_out_only_by_what_matters():
    rows = [row(number) for number in range(100)]
    own = 85.0
    assert "No rank stands out" in drawn([*rows, row(100, 80 + 0.9 * outliers.SLOWER * own)])
    assert "1 rank stands out" in drawn([*rows, row(100, 80 + 1.1 * outliers.SLOWER * own)])


def test_the_late_rank_comes_first_and_no_more_are_named_than_fit():
    slow = [row(number, 120 + number) for number in range(30)]
    page = drawn([*slow, row(30, 90, mark=STRAGGLER), *(row(number) for number in range(31, 200))])
    assert names(page)[0] == "30"
    assert len(names(page)) == NAMED + 1
    assert f"31 ranks stand out; the {NAMED} slowest" in page


def test_a_slow_host_is_named():
    rows = [row(number, 120 if 8 <= number < 14 else 80, node=f"gpu-{number // 8}") for number in range(64)]
    assert "6 ranks stand out, 6 of them on gpu-1" in drawn(rows)


def test_what_the_shares_are_of_can_be_something_else_than_a_step():
    assert "time" in drawn([row(0), row(1)], whole="time")
    assert "one time" in drawn([row(number) for number in range(20)], whole="time")


def test_strips_are_coloured_only_where_it_is_wanted():
    assert "\x1b[" in drawn([row(0), row(1)], colour=True)
    assert "\x1b" not in drawn([row(0), row(1)])


def test_names_from_elsewhere_cannot_steer_the_terminal():
    evil = "\x1b[31m[bold]x\n"
    for world in (2, 20):
        page = drawn([row(f"{evil}{number}", node=f"{evil}{number}") for number in range(world)], 200)
        assert "\x1b" not in page
        assert "[bold]" in page


def test_hosts_lose_their_domain_unless_it_tells_them_apart():
    assert rank_table.short({"a.x.org", "b.x.org"}) == {"a.x.org": "a", "b.x.org": "b"}
    assert rank_table.short({"a.x.org", "a.y.org"}) == {"a.x.org": "a.x.org", "a.y.org": "a.y.org"}
    assert rank_table.short({"a-very-long-cluster-name-17"})["a-very-long-cluster-name-17"].endswith(
        "name-17"
    )
