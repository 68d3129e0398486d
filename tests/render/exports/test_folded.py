from __future__ import annotations

from perfdoctor.render.exports.folded import folded
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
