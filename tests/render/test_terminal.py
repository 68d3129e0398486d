from __future__ import annotations

import pytest

from perfdoctor.render import page as blocks
from perfdoctor.render import terminal


def drawn(*section, width=80, colour=False):
    return terminal.draw(blocks.page([section]), width, colour)


def test_sections_have_a_line_between_them_and_those_without_a_block_are_left_out():
    page = blocks.page([[blocks.Paragraph("a")], [], [blocks.Paragraph("b")]])
    assert terminal.draw(page) == "\n  a\n\n  b\n\n"


@pytest.mark.parametrize(("width", "columns"), [(10, 40), (80, 80), (300, 100)])
def test_a_page_is_neither_narrower_nor_wider_than_one_can_read(width, columns):
    assert terminal.columns(width) == columns


def test_a_heading_gives_its_aside_a_line_of_its_own_where_there_is_no_room():
    heading = blocks.Headline("a" * 40, "b" * 30, gives=True)
    assert len(drawn(heading, width=80).splitlines()) == 3
    assert len(drawn(heading, width=60).splitlines()) == 4


def test_columns_of_a_table_are_shown_where_there_is_room_for_them():
    table = blocks.Grid(
        (blocks.Column("a"), blocks.Column("wide", room=70), blocks.Column("narrow", until=70)),
        (("1", "2", "3"),),
    )
    assert "wide" in drawn(table, width=80)
    assert "narrow" not in drawn(table, width=80)
    assert "narrow" in drawn(table, width=60)


def test_figures_of_a_table_give_way_for_its_names_the_last_of_them_first():
    rows = [("a_kernel_of_a_name", "12.5 ms", "12%", "12.1 TFLOP/s, 77% of peak"), ("b", "1 s", "1%", "")]
    table = blocks.table("Kernels", ["time", "share", "reached"], rows)
    shown = {width: drawn(table, width=width).splitlines()[1:3] for width in (40, 60, 80)}
    assert shown[80][0].split() == ["Kernels", "time", "share", "reached"]
    assert shown[60][0].split() == shown[40][0].split() == ["Kernels", "time", "share"]
    assert all(lines[1].split()[:3] == ["a_kernel_of_a_name", "12.5", "ms"] for lines in shown.values())


def test_the_first_figure_of_a_table_stays_however_long_it_is():
    table = blocks.table("Kernels", ["time", "share"], [("a" * 30, "1" * 26, "12%")])
    assert drawn(table, width=40).splitlines()[2].split() == ["aaaaaaa…", "1" * 26]


def test_a_table_without_rows_has_its_headings():
    assert drawn(blocks.table("Kernels", ["time"], [])).split() == ["Kernels", "time"]


def test_levels_and_strips_are_as_long_as_there_is_room():
    strip = blocks.Strip((("x", "green", 0.25), ("y", "red", 0.25)))
    assert "".join(letters for letters, _ in strip.cells(40)) == "x" * 10 + "y" * 10
    levels = blocks.Levels((0.0, 0.5, 1.0), 0.05, "told")
    assert levels.signs(3) == "▁▅█"
    assert len(levels.signs(2)) == 2


def test_what_is_not_a_block_is_refused():
    with pytest.raises(TypeError, match="no block of a page: str"):
        drawn("text")
