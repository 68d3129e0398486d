from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from perfdoctor.facts import tracks
from perfdoctor.runs.types import RankRecords, RunRecords
from perfdoctor.trace.parse import read
from perfdoctor.trace.perfetto import Counter, Slice
from tests.support import trace_files

SECOND = 10**9
PHASES = list(tracks.COLUMNS.values())
STEP = np.dtype([("end_ns", "<i8"), ("begin_ns", "<i8"), *((name, "<i8") for name in PHASES)])
BATCH = np.dtype([("end_ns", "<i8"), ("begin_ns", "<i8"), ("pid", "<u4")])


def trace(folder, *events):
    return read.read(trace_files.save(folder, trace_files.in_lines(events)))


def row(begin, end, **phases):
    return (end, begin, *(phases.get(name, 0) for name in PHASES))


def records(steps=(), batches=(), host=(), gpus=None):
    rank = RankRecords(
        0,
        np.array(list(steps), STEP) if steps else None,
        np.array(list(batches), BATCH) if batches else None,
        (),
    )
    return RunRecords(Path("run"), {}, {0: rank}, (), tuple(host), gpus or {})


def beside(found, shift=0):
    return tracks.of_run(found, 0, shift, 10 * SECOND, 11 * SECOND)


def test_the_devices_work_and_its_gaps_partition_its_span(tmp_path):
    found = tracks.of_trace(
        trace(
            tmp_path,
            trace_files.kernel(ts=100, dur=20),
            trace_files.kernel(ts=110, dur=20),
            trace_files.kernel(ts=150, dur=10),
        )
    )
    assert [(mark.name, mark.begin_ns, mark.end_ns) for mark in found] == [
        ("busy", 100_000, 130_000),
        ("idle: unknown", 130_000, 150_000),
        ("busy", 150_000, 160_000),
    ]


def test_idle_time_is_named_by_its_main_cause(tmp_path):
    loading = "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__"
    found = tracks.of_trace(
        trace(
            tmp_path,
            trace_files.call(ts=90, correlation=1),
            trace_files.kernel(ts=100, dur=20, correlation=1),
            trace_files.event("user_annotation", loading, 95, 300, 1, 7),
            trace_files.call(ts=400, correlation=2),
            trace_files.kernel(ts=405, dur=20, correlation=2),
        )
    )
    assert [mark.name for mark in found] == ["busy", "idle: data wait", "busy"]


def test_gaps_too_short_to_see_are_left_out(tmp_path):
    found = tracks.of_trace(
        trace(tmp_path, trace_files.kernel(ts=100, dur=20), trace_files.kernel(ts=120.5, dur=20))
    )
    assert [mark.name for mark in found] == ["busy"]


def test_only_the_longest_gaps_are_drawn(tmp_path, monkeypatch):
    monkeypatch.setattr(tracks, "MOST_IDLES", 3)
    many = [trace_files.kernel(ts=100 + 100 * number, dur=50 - number) for number in range(10)]
    idle = [mark for mark in tracks.of_trace(trace(tmp_path, *many)) if mark.name != "busy"]
    assert [mark.end_ns - mark.begin_ns for mark in idle] == [56_000, 57_000, 58_000]


def test_a_trace_without_a_device_has_no_lane(tmp_path):
    assert tracks.of_trace(trace(tmp_path, trace_files.op())) == []


def test_a_device_whose_kernels_were_lost_is_not_drawn_as_idle(tmp_path):
    copy = trace_files.event("gpu_memcpy", "Memcpy HtoD (Pinned -> Device)", 110, 20, 0, 7)
    assert tracks.of_trace(trace(tmp_path, trace_files.call(), copy)) == []


def test_annotations_tie_the_clocks_together(tmp_path):
    marks = [
        trace_files.event("user_annotation", "ProfilerStep#3", 1000, 50, 1, 7),
        trace_files.event("user_annotation", "ProfilerStep#4", 1100, 50, 1, 7),
    ]
    found = trace(tmp_path, *marks)
    assert tracks.shift_ns(found, {"ProfilerStep#3": 400_000, "ProfilerStep#4": 500_000}) == 600_000
    assert tracks.shift_ns(found, {"ProfilerStep#9": 1}) is None
    assert tracks.extent_ns(found) == (1_000_000, 1_150_000)


def test_steps_and_phases_are_nested_slices_that_fill_each_other():
    found = beside(records([row(10 * SECOND, 10 * SECOND + 100, data_wait=30, forward=50)]))
    steps = [mark for mark in found if mark.track == "steps"]
    phases = [mark for mark in found if mark.track.startswith("phases")]
    assert [(mark.name, mark.end_ns - mark.begin_ns) for mark in steps] == [("step", 100)]
    assert [(mark.name, mark.end_ns - mark.begin_ns) for mark in phases] == [
        ("data_wait", 30),
        ("forward", 50),
        ("other", 20),
    ]
    assert phases[0].begin_ns == steps[0].begin_ns
    assert phases[-1].end_ns == steps[0].end_ns


def test_phases_never_outlast_their_row():
    found = beside(records([row(10 * SECOND, 10 * SECOND + 100, data_wait=80, forward=50, backward=-5)]))
    assert max(mark.end_ns for mark in found) == 10 * SECOND + 100


def test_the_runs_clock_is_moved_to_the_traces():
    found = beside(records([row(5 * SECOND, 5 * SECOND + 100)]), shift=5 * SECOND)
    assert found[0].begin_ns == 10 * SECOND


def test_only_what_is_near_the_trace_is_shown():
    far = [row(begin * SECOND, begin * SECOND + 100) for begin in (1, 8, 13, 20)]
    assert len([mark for mark in beside(records(far)) if mark.track == "steps"]) == 2


def test_batches_of_one_worker_never_overlap():
    begin = 10 * SECOND
    found = beside(
        records(batches=[(begin + 100, begin, 7), (begin + 150, begin + 50, 7), (begin + 90, begin, 8)])
    )
    lane = [(mark.begin_ns - begin, mark.end_ns - begin) for mark in found if mark.track.endswith(" 7")]
    assert lane == [(0, 100), (100, 150)]
    assert {mark.track for mark in found} == {
        "batches prepared by process 7",
        "batches prepared by process 8",
    }


def sample(at_s, cpu_s, received):
    proc = {"pid": 1, "role": "main", "cpu_s": cpu_s, "rss_bytes": 1_000, "read_bytes": 0}
    return {"t_ns": at_s * SECOND, "procs": [proc], "net": {"received_bytes": received, "sent_bytes": 0}}


def test_what_grows_becomes_a_rate_at_the_beginning_of_its_interval():
    found = beside(records(host=[sample(10, 1.0, 100), sample(11, 2.5, 700)]))
    values = {(mark.name, mark.at_ns): mark.value for mark in found if isinstance(mark, Counter)}
    assert values["CPU cores, training process", 10 * SECOND] == pytest.approx(1.5)
    assert values["network received, bytes/s", 10 * SECOND] == pytest.approx(600)
    assert values["memory of the processes, bytes", 11 * SECOND] == 1_000


def test_gpu_samples_become_counters_and_unknown_ones_are_left_out():
    rows = ({"t_ns": 10 * SECOND, "utilisation": 0.7, "memory_used_bytes": None, "power_w": 300.0},)
    found = beside(records(gpus={0: rows}))
    assert {(mark.name, mark.value) for mark in found} == {
        ("GPU 0 utilisation", 0.7),
        ("GPU 0 power, W", 300.0),
    }


def test_broken_samples_and_rows_of_another_layout_are_left_out():
    odd = np.zeros(1, np.dtype([("begin_ns", "<i8")]))
    rank = RankRecords(0, odd, None, ())
    broken = RunRecords(
        Path("run"), {}, {0: rank}, (), ({"t_ns": "x"}, {"procs": [1]}), {0: ({"t_ns": None},)}
    )
    assert not any(isinstance(mark, Slice) for mark in beside(broken))
    assert tracks.of_run(broken, 7, 0, 10 * SECOND, 11 * SECOND) == []
