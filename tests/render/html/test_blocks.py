from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest

from perfdoctor.diagnosis import trace_report
from perfdoctor.render import page as pages
from perfdoctor.render.html import blocks
from perfdoctor.render.pages import ranks, trial
from perfdoctor.render.pages import report as report_page
from perfdoctor.render.pages import trace as trace_page
from tests.render.pages.test_trace import FULL
from tests.support import job_facts, reports, trial_results

HOSTILE = "</script><img src=x onerror=alert(1)>[red]\x1b[31m\u202egpj"
SHOWN = HOSTILE.replace("\x1b", r"\x1b").replace("\u202e", r"\u202e")
PAGES = {
    "report": report_page.page(reports.STARVED),
    "ranks": pages.page(ranks.sections(job_facts.job(8, 2), "")),
    "trial": trial.page(trial_results.trial(trial_results.FASTER, trial_results.UNCLEAR)),
    "trace": trace_page.page(trace_report.report((FULL,)), top=20),
}


class Read(HTMLParser):
    """All tags, all text, and whether each element that is opened is closed."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.open: list[str] = []
        self.text = ""
        self.feed(page)
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta", "br"):
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text += data


@pytest.mark.parametrize("name", PAGES)
def test_a_page_is_a_whole_file_with_its_words_and_without_scripts(name):
    page = PAGES[name]
    file = blocks.file(page)
    read = Read(file)
    assert file.startswith("<!doctype html>")
    assert "<script" not in file
    assert not any(attribute in ("style", "src", "href") for _, found in read.tags for attribute in found)
    for section in page.sections:
        for block in section:
            if isinstance(block, pages.Headline):
                assert pages.plain(block.words).strip() in read.text


@pytest.mark.shows("html")
def test_whatever_stands_in_a_block_stays_text():
    every = (
        pages.Headline(HOSTILE, HOSTILE, level=1),
        pages.Headline((pages.code(HOSTILE),), number=3, level=5),
        pages.Paragraph(pages.Span(HOSTILE, colour="green")),
        pages.Bullets((HOSTILE,)),
        pages.CodeLines(((HOSTILE, 3, HOSTILE),), left_out=2),
        pages.Code(HOSTILE),
        pages.Labelled(
            ((HOSTILE, HOSTILE), ("", pages.Code(HOSTILE)), ("x", pages.Levels((0.1,), 1.0, HOSTILE)))
        ),
        pages.Bars((pages.BarPart(HOSTILE, HOSTILE, 0.5, "green"),)),
        pages.Grid((pages.Column(HOSTILE),), ((HOSTILE,), (pages.Bar(0.5, "red"),))),
        pages.Grid((pages.Column("x"),), ((pages.Strip((("<", "green", 1.0),)),),)),
        pages.Legend(((HOSTILE, HOSTILE, "blue"),)),
        pages.Indented((pages.Paragraph(HOSTILE),)),
    )
    read = Read(blocks.file(pages.page([every])))
    assert not {"img", "script"} & {tag for tag, _ in read.tags}
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e]", read.text)
    assert read.text.count(SHOWN) >= 20


def test_parts_of_a_whole_begin_where_the_one_before_ends():
    bars = pages.Bars((pages.BarPart("a", "1 s", 0.25, "green"), pages.BarPart("b", "3 s", 0.75, "red")))
    drawn = blocks.drawn(bars)
    assert re.findall(r'class="fill-(\w+)" x="([\d.]+)" y="0.00" width="([\d.]+)"', drawn) == [
        ("green", "0.00", "25.00"),
        ("red", "25.00", "75.00"),
    ]


def test_a_table_has_the_columns_of_a_wide_page_and_its_rows_are_marked():
    columns = (
        pages.Column("a", left=True),
        pages.Column("narrow only", until=90),
        pages.Column("b", room=90),
    )
    drawn = blocks.drawn(pages.Grid(columns, (("1", "2", "3"), ("4", "5", "6")), frozenset({1})))
    assert "narrow only" not in drawn
    assert '<tr class="marked"><td>4</td><td class="number">6</td></tr>' in drawn


def test_what_is_no_block_is_refused():
    with pytest.raises(TypeError, match="no block of a page: str"):
        blocks.drawn("a paragraph")
