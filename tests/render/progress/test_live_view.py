from __future__ import annotations

import os
import pty
import select
from dataclasses import replace

import pytest

from perfdoctor.model.concluded import Verdict
from perfdoctor.render.progress import live_view
from perfdoctor.render.progress.keyboard import Keyboard
from perfdoctor.render.progress.live_view import LEAVES, STYLE, FullScreen, LiveView, sentence
from tests.render.pages.test_live import NOW, RANK, of_ranks
from tests.support import reports

HEALTHY = replace(reports.STARVED, findings=(), diagnosis=replace(reports.DIAGNOSIS, verdict=Verdict.HEALTHY))


def seen(size=(80, 24), now=NOW, report=reports.STARVED, colour=False):
    return LiveView(colour).lines(now, report, size, LEAVES)


def bare(line):
    return STYLE.sub("", line)


@pytest.mark.parametrize("size", [(40, 8), (80, 24), (100, 50), (160, 24), (200, 50), (250, 70)])
@pytest.mark.parametrize("colour", [False, True])
def test_the_view_fills_the_screen_and_no_more(size, colour):
    lines = seen(size, of_ranks(*(replace(RANK, rank=rank) for rank in range(1, 9))), colour=colour)
    assert len(lines) == size[1]
    assert max(len(bare(line)) for line in lines) <= size[0]
    assert LEAVES[: size[0] - 9] in bare(lines[-1])
    assert any("\x1b[" in line for line in lines) is colour


def test_on_eighty_columns_the_verdict_stands_above_the_figures():
    told = "\n".join(seen())
    assert told.index("Training waits for data") < told.index("train.py:41") < told.index("One step")
    assert "5.0 of 8, others 0.4" in told


def test_on_two_hundred_columns_they_stand_side_by_side():
    (line,) = [line for line in seen((200, 50)) if "One step" in line]
    assert "Training waits for data" in line
    assert line.index("Training") == 99 + live_view.GAP + 2


def test_in_colours_both_halves_begin_where_they_do_without():
    plain, coloured = seen((200, 50)), seen((200, 50), colour=True)
    assert [bare(line).rstrip() for line in coloured] == [line.rstrip() for line in plain]


def test_what_does_not_fit_is_counted_on_the_last_line():
    many = of_ranks(*(replace(RANK, rank=rank) for rank in range(1, 12)))
    assert "more lines in a taller window" in seen((80, 24), many)[-1]
    assert "more line" not in seen((80, 60), many)[-1]


def test_room_between_parts_goes_before_what_is_said_does():
    high = [line for line in seen((80, 30)) if line]
    low = [line for line in seen((80, len(high))) if line]
    assert low == high
    assert "" not in seen((80, len(high)))


def test_a_low_terminal_has_the_first_advice_in_brief():
    assert "perfdoctor try --workers 3" not in "\n".join(seen((80, 39)))
    assert "perfdoctor try --workers 3" in "\n".join(seen((80, 60)))


def test_a_new_report_is_drawn_and_the_same_one_is_not_drawn_again(monkeypatch):
    drawn = []
    verdict = live_view.live.verdict
    monkeypatch.setattr(live_view.live, "verdict", lambda *about: drawn.append(about) or verdict(*about))
    view = LiveView(False)
    view.lines(NOW, reports.STARVED, (80, 24), LEAVES)
    view.lines(NOW, reports.STARVED, (80, 24), LEAVES)
    assert len(drawn) == 1
    assert "Healthy" in "\n".join(view.lines(NOW, HEALTHY, (80, 24), LEAVES))
    view.lines(NOW, HEALTHY, (200, 24), LEAVES)
    assert len(drawn) == 3


def test_the_panel_is_lower_on_a_wide_terminal():
    narrow, wide = (LiveView(False).panel(NOW, reports.STARVED, columns, False) for columns in (80, 200))
    assert (len(narrow), len(wide)) == (6, 4)
    assert all(len(line) <= 80 for line in narrow)
    assert all(len(line) <= 200 for line in wide)
    assert "phases" in wide[2]
    assert "verdict" in wide[2]
    assert LEAVES in LiveView(False).panel(NOW, None, 200, True)[1]


def test_a_line_of_a_log_steers_nothing():
    odd = replace(reports.STARVED, run=replace(reports.RUN, cwd="\x1b[2J"))
    assert "\x1b" not in sentence(NOW, odd)
    assert "\n" not in sentence(NOW, None)


# ---------------------------------------------------------------- the screen


@pytest.fixture
def screen():
    """A full screen on a terminal, and what it has written there."""
    controller, slave = pty.openpty()
    made = FullScreen(slave, Keyboard(None), "utf-8")

    def written():
        seen = b""
        while select.select([controller], [], [], 0.2)[0]:
            seen += os.read(controller, 65536)
        return seen.decode().replace("\r\r", "\r")

    made.written = written
    yield made
    os.close(controller)
    os.close(slave)


def test_the_alternate_screen_is_entered_and_left(screen):
    with screen.shown():
        screen.draw(["one", "two"])
    written = screen.written()
    assert written.index("\x1b[?1049h") < written.index("one") < written.index("\x1b[?1049l")
    assert written.index("\x1b[?25l") < written.index("\x1b[?25h")
    assert written.endswith(live_view.LEAVE)


def test_the_screen_is_left_by_an_error_too(screen):
    with pytest.raises(RuntimeError), screen.shown():
        raise RuntimeError
    assert screen.written().endswith(live_view.LEAVE)


def test_each_drawing_replaces_the_last_without_clearing_first(screen):
    screen.draw(["one", "two"])
    assert screen.written() == "\x1b[Hone\x1b[K\r\ntwo\x1b[K\x1b[J"


def test_an_ascii_terminal_gets_letters_that_it_has():
    controller, slave = pty.openpty()
    FullScreen(slave, Keyboard(None), "ascii").draw(["█ 2.3× · é"])
    assert os.read(controller, 100) == b"\x1b[H# 2.3x - ?\x1b[K\x1b[J"
    os.close(controller)
    os.close(slave)


def test_a_terminal_that_does_not_tell_its_size_has_the_usual_one(screen):
    assert screen.size == (80, 24)


def test_a_terminal_that_went_away_is_no_error():
    controller, slave = pty.openpty()
    made = FullScreen(slave, Keyboard(None), "utf-8")
    os.close(controller)
    os.close(slave)
    made.draw(["one"])
    assert made.size == (80, 24)
