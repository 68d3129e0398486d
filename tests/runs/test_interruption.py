from __future__ import annotations

import time

import pytest

from perfdoctor.runs import interruption
from perfdoctor.runs import records as recorded
from tests.support import jobs
from tests.support.jobs import write_job


def leave(folder, rank):
    """The rank has left the collective that it was in."""
    path = folder / f"collectives.rank{rank}.bin"
    data = bytearray(path.read_bytes())
    data[jobs.NOW_BYTE + jobs.NOW.size - 1] = 0
    path.write_bytes(data)


@pytest.fixture
def folder(tmp_path):
    (written,) = write_job(tmp_path, ranks=2, steps=5, inside=(1,)).folders
    return written


def test_a_rank_that_leaves_its_collective_as_its_job_is_ended_was_in_it(folder):
    inside = recorded.read(folder).ranks[1].now
    interruption.keep(folder)
    leave(folder, 1)
    ranks = recorded.read(folder).ranks
    assert (ranks[0].now, ranks[1].now) == (None, inside)


def test_a_rank_that_goes_on_with_its_steps_is_where_it_ends(folder, monkeypatch):
    steps = recorded.read(folder).ranks[1].steps
    monkeypatch.setattr(time, "perf_counter_ns", lambda: int(steps["end_ns"][-1]) - 1)
    interruption.keep(folder)
    leave(folder, 1)
    assert recorded.read(folder).ranks[1].now is None


@pytest.mark.parametrize("content", ["", "[]", '{"t_ns": 5}', '{"t_ns": 9, "inside": [3]}'])
def test_what_cannot_be_read_tells_nothing(folder, content):
    leave(folder, 1)
    (folder / interruption.FILE).write_text(content)
    assert recorded.read(folder).ranks[1].now is None


def test_where_nothing_can_be_written_nothing_happens(tmp_path):
    interruption.keep(tmp_path / "gone")
    assert not (tmp_path / "gone").exists()
