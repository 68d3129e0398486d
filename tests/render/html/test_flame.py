from __future__ import annotations

import pytest

from perfdoctor.model.flame import Flame, FlameFrame, ThreadUse
from perfdoctor.render.html.flame import ROW, icicle, kernel_clock, thread_rows

FRAMES = (
    FlameFrame("forward", "", "phase", 0, 0.0, 1.0, 100, 60, 0),
    FlameFrame("main", "train.py:7", "user", 1, 0.0, 0.7, 70, 60, 0),
    FlameFrame("pool", "", "thread", 1, 0.7, 0.3, 30, 0, 0),
)


def test_a_frame_carries_its_samples_by_state_as_short_as_they_can_be():
    drawn = icicle(Flame("Training process", 100, 0.05, FRAMES))
    assert (drawn.counts, drawn.height) == ("100 60", 2 * ROW)
    assert [frame.counts for frame in drawn.frames] == ["100 60", "70 60", "30"]
    assert [frame.rests for frame in drawn.frames] == [True, True, False]
    assert drawn.frames[1].name == "main (train.py:7): 70%, your code, 86% of it waiting"
    assert drawn.frames[2].name == "pool: 30%, thread"


def test_without_waits_there_is_no_state_to_choose():
    assert icicle(Flame("Training process", 30, None, FRAMES[2:])).counts == "30"


def test_a_thread_is_a_row_of_shares_that_add_up():
    first, second = thread_rows(
        [ThreadUse("main", 200, 50, 100), ThreadUse("pool", 4, 0, 4), ThreadUse("no", 0, 0, 0)]
    )
    assert (first.samples, first.shares) == ("200", ("25%", "25%", "50%"))
    assert [part.style for part in first.bar] == ["state-running", "state-waiting", "state-idle"]
    assert sum(part.width for part in first.bar) == pytest.approx(100)
    assert [part.style for part in second.bar] == ["state-idle"]


def test_the_kernels_clock_is_told_where_it_is_known():
    assert "on a core for 22% of the time" in kernel_clock(0.22, 0.69)
    assert kernel_clock(None, 0.5) == kernel_clock(0.5, None) == ""
