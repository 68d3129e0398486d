from __future__ import annotations

import re
from dataclasses import replace

import pytest

from perfdoctor.model.measured import Location
from perfdoctor.render import markdown
from perfdoctor.render import page as blocks
from perfdoctor.render.pages import report as report_page
from perfdoctor.render.pages import trial as trial_page
from tests.support import job_facts, reports, trial_results


def drawn(*section):
    return markdown.draw(blocks.page([section]))


def test_a_report_has_its_verdict_the_phases_as_a_table_and_the_change_in_a_fence():
    text = markdown.draw(report_page.page(reports.STARVED))
    assert "### Training waits for data: 61% of its time" in text
    assert "| data wait | 37.2 ms | 61% |" in text
    assert "**1. Prepare batches in more worker processes**: 2.3× faster (1.8–2.6×)" in text
    assert "`train.py:41` `loader = DataLoader(digits, batch_size=64, shuffle=True)`" in text
    assert "- try: `perfdoctor try --workers 3`" in text
    assert "- more: `perfdoctor tips too-few-workers`" in text
    fence = re.search(r"- by hand:\n  ```python\n(.*?)\n  ```", text, re.DOTALL)
    assert fence is not None
    assert "num_workers=3, persistent_workers=True)" in fence[1]


def test_ranks_and_trials_are_tables_too():
    joined = replace(reports.ended(ranks=8), job=job_facts.job(8, 2))
    assert re.search(r"\| 3 \w+ \| gpu-0000 \|.*`d+f+b+", markdown.draw(report_page.page(joined)))
    text = markdown.draw(trial_page.page(trial_results.trial(trial_results.FASTER)))
    assert re.search(r"\| --workers 4 \| 31.5 ms \| 1.9 GB \| 1.9× \(1.8–2.0×\) \| faster \|", text)


@pytest.mark.parametrize(
    ("raw", "written"),
    [
        ("a_b *c* `d`", "a_b \\*c\\* \\`d\\`"),
        ("_x_ <b> [y](z)", "\\_x\\_ \\<b\\> \\[y\\](z)"),
        ("1. one", "1\\. one"),
        ("1.5 ms", "1.5 ms"),
        ("- item", "\\- item"),
        ("--workers 4", "--workers 4"),
        ("# heading", "\\# heading"),
        ("@ada see #12", "@<!-- -->ada see #<!-- -->12"),
        ("a\x1b[31m\nb", "a\\\\x1b\\[31m\\\\nb"),
    ],
)
def test_text_stands_in_markdown_as_it_is(raw, written):
    assert markdown.escape(raw) == written


def test_code_ends_where_it_is_to_end_whatever_it_holds():
    assert markdown.code("a `b` c") == "``a `b` c``"
    assert markdown.code("`b`") == "`` `b` ``"
    fenced = drawn(blocks.Code("x\n````\ny"))
    assert fenced == "`````python\nx\n````\ny\n`````\n"


def test_what_a_sentence_quotes_in_backticks_is_code():
    text = drawn(blocks.bullets(["in `Waves.__getitem__`: `a * b` and a lone ` tick, ``two`` too"]))
    assert text == "- in `Waves.__getitem__`: `a * b` and a lone \\` tick, \\`\\`two\\`\\` too\n"


def test_a_bar_in_a_cell_ends_no_cell():
    table = blocks.table("a|b", ["c"], [("x|y", blocks.Span("p|q", code=True))])
    rows = drawn(table).splitlines()
    assert [len(re.findall(r"(?<!\\)\|", row)) for row in rows] == [3, 3, 3]


def test_bars_are_left_to_screens_and_columns_for_narrow_ones_too():
    columns = (blocks.Column("a"), blocks.Column("bar", wide=True), blocks.Column("narrow", until=60))
    assert drawn(blocks.Grid(columns, (("1", blocks.Bar(0.5, "green"), "x"),))).splitlines() == [
        "| a |",
        "| --: |",
        "| 1 |",
    ]


@pytest.mark.shows("terminal-text")
def test_nothing_from_the_users_world_is_markup():
    evil = "[click](http://x) <img src=x>\x1b]0;x\x07"
    advice = replace(
        reports.WORKERS.advice, because=(evil,), at=(Location(f"/x/{evil}.py", 1, None, evil),), code=evil
    )
    report = replace(
        reports.ended(command=("python", evil), device=evil),
        findings=(replace(reports.WORKERS, title=evil, advice=advice),),
        notes=(evil,),
    )
    text = markdown.draw(report_page.page(report))
    outside = re.sub(r"```.*?```|`[^`\n]*`", "", text, flags=re.DOTALL)
    assert not re.search(r"[\x00-\x09\x0b-\x1f\x7f-\x9f]", text)
    assert not re.search(r"(?<!\\)(<img|\[click)", outside)
