from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from perfdoctor.errors import NotATrace, TracesDoNotFit
from perfdoctor.trace.measure import files
from tests.support import trace_files
from tests.support.rank_traces import rank as rank_trace
from tests.support.rank_traces import step, unmarked


def ranks(tmp_path: Path) -> list[Path]:
    """Files of four ranks, of different lengths."""
    return [
        trace_files.save(
            tmp_path,
            trace_files.in_lines([trace_files.kernel(ts=100 * n) for n in range(1, rank + 3)]),
            f"rank{rank}.json",
        )
        for rank in range(4)
    ]


def test_more_processes_give_the_same_in_the_same_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = ranks(tmp_path)
    alone = files.measured(paths, 10**9, cores=1)
    monkeypatch.setattr(files, "ENOUGH_BYTES", 0)
    assert files.measured(paths, 10**9, cores=2) == alone
    assert [trace.rank for trace in alone] == [0, 1, 2, 3]
    assert [trace.device_events for trace in alone] == [2, 3, 4, 5]


def test_a_file_that_cannot_be_read_is_refused_with_its_hint_from_another_process_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "ENOUGH_BYTES", 0)
    with pytest.raises(NotATrace, match="is empty") as caught:
        files.measured([*ranks(tmp_path), trace_files.save(tmp_path, b"", "rank4.json")], 10**9, cores=2)
    assert caught.value.hint


@pytest.mark.shows("damaged-trace")
def test_a_window_that_cannot_be_read_is_a_note_and_the_rest_is_used(tmp_path: Path) -> None:
    window = '{"traceEvents": [{"ph": "X", "cat": "cpu_op", "name": "aten::mm", "ts": 1, "dur": 2, "pid": 1, "tid": 1}]}'
    plain, shapes = tmp_path / "trace.rank0.0.json", tmp_path / "trace.rank0.1.json"
    plain.write_text("cut")
    shapes.write_text(window)
    measured, notes = files.measured_windows({"plain": plain, "shapes": shapes})
    assert list(measured) == ["shapes"]
    assert len(notes) == 1
    assert notes[0].slug == "unread-window"


def test_on_a_cpu_no_window_is_read_after_the_one_with_shapes(tmp_path: Path) -> None:
    step = '{"ph": "X", "cat": "user_annotation", "name": "ProfilerStep#1", "ts": 0, "dur": 9, "pid": 1, "tid": 1}'
    op = '{"ph": "X", "cat": "cpu_op", "name": "aten::mm", "ts": 1, "dur": 2, "pid": 1, "tid": 1, "args": {ARGS}}'
    paths = {}
    for kind, args in (("plain", ""), ("shapes", '"Input Dims": [[4, 8], [8, 16]]'), ("stacks", "")):
        paths[kind] = tmp_path / f"trace.{kind}.json"
        paths[kind].write_text(f'{{"traceEvents": [{step}, {op.replace("ARGS", args)}]}}')
    measured, _ = files.measured_windows(paths)
    assert list(measured) == ["plain", "shapes"]
    assert measured["shapes"].host_work


ONE = rank_trace(rank=0, file="a.json")


def test_ranks_of_one_recording_fit():
    files.check([ONE, rank_trace(rank=1, file="b.json"), rank_trace(rank=None), rank_trace(rank=None)])


def test_two_files_of_one_rank_are_named():
    with pytest.raises(TracesDoNotFit, match=r"a\.json and b\.json both belong to rank 0"):
        files.check([ONE, replace(ONE, file="b.json")])


def test_files_of_different_steps_are_named_with_their_steps():
    later = rank_trace((step(20), step(21)), rank=1, file="b.json")
    with pytest.raises(TracesDoNotFit) as caught:
        files.check([ONE, later])
    said = str(caught.value)
    assert "a.json holds ProfilerStep#3 to ProfilerStep#7" in said
    assert "b.json holds ProfilerStep#20 to ProfilerStep#21" in said


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(rank_trace((step(3), step(4)), rank=1), id="cut-off"),
        pytest.param(unmarked(rank=1), id="not-marked"),
    ],
)
def test_a_file_that_ends_early_or_marks_no_steps_still_fits(other):
    files.check([ONE, other])
