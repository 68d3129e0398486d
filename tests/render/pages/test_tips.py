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


def test_each_tip_says_what_it_was_held_against():
    text = tips.listing(TIPS, {}, 200)
    for tip in TIPS:
        line = next(line for line in text.splitlines() if line.startswith(f"  {tip.id} "))
        assert line.endswith(f"({tips.held_against(tip.heading)})")
    assert "  facts: on made-up measurements only" in text
    assert "Use a larger batch (scripts; on a device traces)" in text


def test_a_page_tells_devices_apart_where_that_was_another_check():
    pages = {tip.id: tips.page(tip) for tip in TIPS}
    assert "- checked on a device: on recorded traces" in pages["small-batch"]
    assert "- checked on a device: on CPUs only" in pages["too-few-workers"]
    assert "- checked on a device" not in pages["tf32-off"]
    assert "- checked on a device" not in pages["wrong-thread-count"]
