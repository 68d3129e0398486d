from __future__ import annotations

from dataclasses import replace

from perfdoctor.model.recorded import RecordedStack
from perfdoctor.render.exports.folded import difference, folded
from tests.support.recorded import LINE, NOTHING, RECORDED


def read(text):
    """Lines as flame graph programs read them: the count is behind the last space."""
    for line in text.splitlines():
        stack, _, count = line.rpartition(" ")
        yield stack.split(";"), int(count)


def test_thread_and_phase_are_the_first_frames_and_no_name_breaks_a_line():
    first, second, worker = read(folded(RECORDED))
    assert first == (["main", "forward", LINE, 'a:b 7\\n"</script>\\'], 30)
    assert second == (["main", "other", LINE], 10)
    assert worker == (["worker 9", "loader", "load (/home/ada/train.py:3)"], 4)


def test_without_stacks_there_are_no_lines():
    assert folded(NOTHING) == ""


def test_two_runs_are_counted_beside_each_other_as_if_sampled_alike():
    before = (
        RecordedStack("main", "other", (LINE,), 20),
        RecordedStack("main", "other", ("gone",), 60),
        RecordedStack("worker 5", "loader", ("load (/home/ada/train.py:3)",), 1),
        RecordedStack("thread saver", "other", (LINE,), 3),
    )
    lines = difference(replace(RECORDED, stacks=before), RECORDED).splitlines()
    assert [line.rsplit(" ", 2) for line in lines] == [
        [f'main;forward;{LINE};a:b 7\\n"</script>\\', "0", "30"],
        ["main;other;gone", "30", "0"],
        [f"main;other;{LINE}", "10", "10"],
        [f"thread saver;other;{LINE}", "3", "0"],
        ["worker *;loader;load (/home/ada/train.py:3)", "4", "4"],
    ]
    assert difference(NOTHING, NOTHING) == ""
