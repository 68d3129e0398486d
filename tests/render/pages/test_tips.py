from __future__ import annotations

import pytest

from perfdoctor.model.concluded import Bottleneck
from perfdoctor.model.tip import Planned
from perfdoctor.render.pages import tips
from perfdoctor.tips import catalogue

TIPS = catalogue.tips()
OWED = {"later": Planned("Do it later", Bottleneck.HOST, "nobody measures it yet")}


def test_every_tip_stands_under_its_class():
    text = tips.listing(TIPS, {}, 100)
    blocks = dict(block.partition("\n")[::2] for block in text.split("\n\n"))
    for tip in TIPS:
        heading = next(heading for heading in blocks if heading.startswith(f"{tip.bottleneck.value}:"))
        assert tip.id in blocks[heading]


def test_planned_tips_stand_apart():
    assert "planned, not there yet\n  later" in tips.listing(TIPS, OWED, 100)


@pytest.mark.parametrize("width", [40, 80, 200])
def test_no_line_is_wider_than_the_terminal(width):
    assert max(map(len, tips.listing(TIPS, OWED, width).splitlines())) <= max(width, 40)


def test_a_page_holds_what_it_applies_to_and_every_section():
    page = tips.page(next(tip for tip in TIPS if tip.id == "too-few-workers"))
    assert page.startswith("# too-few-workers\n\n**Prepare batches in more worker processes.**")
    assert "applies to: cpu, gpu; saves: time; effort: flag" in page
    assert page.index("## What it sees") < page.index("## By hand") < page.index("## When not")


def test_the_index_links_to_every_page():
    text = tips.index(TIPS, OWED)
    assert all(f"[{tip.id}]({tip.id}.md)" in text for tip in TIPS)
    assert "- `later` (host): nobody measures it yet." in text
