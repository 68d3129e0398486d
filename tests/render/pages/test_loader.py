from __future__ import annotations

from dataclasses import replace

import pytest

from perfdoctor.render.pages import loader
from tests.facts.data.test_loader_curve import found, stretch
from tests.support.drawn import drawn

CURVE = found(
    {"event": "loading_start", "workers": 0, "first_batch_s": 0.1},
    stretch(0, 10, collate_s=0.1, collate_cpu_s=0.1),
    stretch(0, 9, "cold"),
    stretch(1, 400, "synthetic"),
    stretch(1, 9),
    stretch(4, 40),
    {"event": "loading_memory", "workers": 4, "worker_bytes": 5e7},
)


@pytest.mark.parametrize("width", [60, 80, 100, 200])
def test_no_line_is_wider_than_the_page(width):
    assert max(map(len, drawn(loader.page(CURVE), width).splitlines())) <= min(width, 100)


def test_in_a_narrow_terminal_workers_and_their_rates_are_whole():
    rows = [line.split() for line in drawn(loader.page(CURVE), 40).splitlines()]
    assert ["0", "now"] in [row[:2] for row in rows]
    assert any(row[:2] == ["4", "knee"] and "40" in row for row in rows)


def test_the_page_holds_the_curve_the_batch_and_the_change():
    page = drawn(loader.page(CURVE))
    rows = {line.split()[0]: line for line in page.splitlines() if line.strip()[:1].isdigit()}
    assert "now" in rows["0"]
    assert "knee" in rows["4"]
    assert rows["4"].count("█") > rows["0"].count("█")
    assert "200 MB" in rows["4"]
    assert "One batch from a worker" in page
    assert "num_workers=4" in page
    assert "perfdoctor run predicts that" in " ".join(page.split())


def test_a_sampler_has_a_row_where_it_takes_time():
    assert "sampler" not in drawn(loader.page(CURVE))
    slow = found(stretch(0, 10, collate_s=0.1, collate_cpu_s=0.1, draw_s=0.5, draw_cpu_s=0.0), stretch(1, 9))
    page = drawn(loader.page(slow))
    assert "the sampler takes 50% of the time" in page
    assert "sampler          50 ms" in page


def test_what_comes_from_the_script_is_harmless_and_no_markup():
    assert CURVE.loader is not None
    evil = replace(
        CURVE, loader=replace(CURVE.loader, dataset="[bold]\x1b[31mItems"), notes=("\x1b]0;x\x07",)
    )
    page = drawn(loader.page(evil))
    assert "\x1b" not in page
    assert "\x07" not in page
    assert "[bold]" in page


def test_a_page_without_places_or_costs_is_a_page_still():
    assert CURVE.loader is not None
    bare = replace(CURVE, loader=replace(CURVE.loader, at=None), cost=None)
    assert "What to change" in drawn(loader.page(bare))
