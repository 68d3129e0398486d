from __future__ import annotations

import os
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from perfdoctor.runs import spans


def run(began_s, lasted_s):
    return {"started_epoch_s": began_s, "begin_ns": 0, "end_ns": int(lasted_s * 1e9)}


@given(st.lists(st.tuples(st.integers(0, 3000), st.integers(0, 500)), max_size=12))
def test_those_that_meet_another_are_those_that_each_pair_tells(times):
    runs = {Path(f"run{number}"): run(*time) for number, time in enumerate(times)}
    known = {path: spans.span_s(path, told) for path, told in runs.items()}
    expected = {
        one for one in runs if any(one != other and spans.meet(known[one], known[other]) for other in runs)
    }
    assert spans.meeting(runs) == expected


def test_a_lost_run_ended_when_something_was_written_last(tmp_path):
    (tmp_path / "host.jsonl").touch()
    os.utime(tmp_path / "host.jsonl", (5000.0, 5000.0))
    assert spans.span_s(tmp_path, {"started_epoch_s": 4000.0}) == (4000.0, 5000.0)


def test_a_record_that_is_not_what_it_should_be_began_long_ago(tmp_path):
    assert spans.span_s(tmp_path, {"started_epoch_s": "now"}) == (0.0, 0.0)
