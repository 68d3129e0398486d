from __future__ import annotations

from dataclasses import replace

from perfdoctor.model.lines import WaitPart
from perfdoctor.model.measured import Location, Phase
from perfdoctor.render import markdown
from perfdoctor.render.pages import report as report_page
from tests.support import reports
from tests.support.drawn import drawn
from tests.support.line_facts import lines

MANY = lines(*((line, Phase.FORWARD, 1.5 - line / 10) for line in range(1, 9)))


def shown(found, width=80, **options):
    return drawn(report_page.page(replace(reports.STARVED, lines=found), **options), width, False)


def test_a_line_is_shown_with_its_time_its_share_its_phase_and_its_source():
    row = next(line for line in shown(lines((41, Phase.OTHER, 3.9))).splitlines() if ":41  work" in line)
    assert row.split() == ["3.9", "ms", "39%", "other", "train.py:41", "work(41)"]


def test_of_a_wait_its_part_is_said():
    assert "wait: sampler" in shown(lines((41, Phase.DATA_WAIT, 3.9), wait=WaitPart.SAMPLER))
    assert "wait: worker transfer" in shown(lines((41, Phase.DATA_WAIT, 3.9), wait=WaitPart.TRANSFER))
    assert "wait: loader" in shown(lines((41, Phase.DATA_WAIT, 3.9), wait=WaitPart.LOADER))


def test_in_a_narrow_terminal_the_phase_gives_way_for_the_place():
    page = shown(lines((41, Phase.DATA_WAIT, 3.9), wait=WaitPart.TRANSFER), width=40)
    assert any(line.split()[:4] == ["3.9", "ms", "39%", "train.py:41"] for line in page.splitlines())


def test_a_line_that_a_row_above_shows_is_told_apart_by_what_it_runs():
    found = lines((20, Phase.FORWARD, 3.9), (20, Phase.OPTIMIZER, 2.0), runs=("AdamW.step",))
    rows = [line for line in shown(found).splitlines() if "train.py:20" in line]
    assert [row.partition(":20  ")[2].strip() for row in rows] == ["work(20)", "runs AdamW.step"]


def test_five_lines_are_shown_or_as_many_as_are_asked_for():
    assert shown(MANY).count("  work(") == 5
    assert shown(MANY, costly=7).count("  work(") == 7
    assert "costliest lines" not in shown(MANY, costly=0)


def test_what_no_sample_reached_is_said_where_it_is_much():
    much, little = (shown(lines((1, Phase.OTHER, 5), unseen=ms)) for ms in (12.2, 0.5))
    assert "not seen by any stack sample: 20% of the step" in much
    assert "not seen" not in little


def test_a_long_path_leaves_room_for_the_source_at_every_width():
    found = lines((1, Phase.OTHER, 5))
    deep = Location("/elsewhere/" + "package/" * 9 + "train.py", 7, "main", "total = work(everything)")
    found = replace(found, lines=(replace(found.lines[0], at=deep),))
    page = shown(found)
    assert "…/package/package/train.py:7  total = work" in page
    assert all(len(line) <= 60 for line in shown(found, 60).splitlines())


def test_markdown_has_the_same_table():
    text = markdown.draw(report_page.page(replace(reports.STARVED, lines=lines((41, Phase.OTHER, 3.9)))))
    assert "| 3.9 ms | 39% | other | `train.py:41`  `work(41)` |" in text
