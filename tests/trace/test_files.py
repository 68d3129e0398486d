from __future__ import annotations

import json
from dataclasses import replace

import pytest

from perfdoctor import recorded
from perfdoctor.errors import NotATrace, TracesDoNotFit
from perfdoctor.trace import files
from tests.ranktraces import rank, step, unmarked


def touch(folder, *names):
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).write_text("{}")
    return folder


def run(folder, *windows, extra=()):
    """A run directory with these window events of rank 0 and their files."""
    touch(folder, *(event["file"] for event in windows), *extra)
    (folder / "run.json").write_text('{"schema": "perfdoctor.run/1"}')
    lines = [json.dumps({"event": "window"} | event) for event in windows]
    (folder / "events.rank0.jsonl").write_text("\n".join(lines))
    return folder


def window(index, kind="plain", **more):
    return {"index": index, "kind": kind, "file": f"trace.rank0.{index}.json"} | more


def names(found):
    return [file.path.name for file in found]


def test_a_folders_traces_are_taken_by_name(tmp_path):
    folder = touch(tmp_path / "ranks", "rank1.pt.trace.json.gz", "rank0.pt.trace.json.gz", "notes.txt")
    assert names(files.of_folder(folder)) == ["rank0.pt.trace.json.gz", "rank1.pt.trace.json.gz"]


def test_other_json_beside_files_called_traces_is_left_alone(tmp_path):
    assert names(files.of_folder(touch(tmp_path / "mixed", "a.trace.json", "config.json"))) == [
        "a.trace.json"
    ]
    assert names(files.of_folder(touch(tmp_path / "plain", "a.json"))) == ["a.json"]


def test_a_folder_without_traces_says_how_they_are_called(tmp_path):
    with pytest.raises(NotATrace, match="holds no trace"):
        files.of_folder(touch(tmp_path / "none", "notes.txt"))


def test_the_latest_plain_window_of_a_run_is_meant_unless_one_is_named(tmp_path):
    folder = run(tmp_path / "run", window(0), window(1), window(2, "stacks"))
    assert files.is_run(folder)
    assert names(files.of_run(folder)) == ["trace.rank0.1.json"]
    assert names(files.of_run(folder, 2)) == ["trace.rank0.2.json"]


def test_a_window_without_a_plain_one_is_better_than_none(tmp_path):
    assert names(files.of_run(run(tmp_path / "run", window(0, "shapes")))) == ["trace.rank0.0.json"]


def test_a_window_that_only_some_ranks_recorded_is_not_preferred(tmp_path):
    folder = run(tmp_path / "run", window(0), window(1), extra=["trace.rank1.0.json.gz"])
    found = files.of_run(folder)
    assert names(found) == ["trace.rank0.0.json", "trace.rank1.0.json.gz"]
    assert [file.rank for file in found] == [0, 1]


def test_a_window_carries_what_ties_its_clock_to_the_runs(tmp_path):
    marks = {"ProfilerStep#3": 1_000, "broken": "x", "true": True}
    (found,) = files.of_run(run(tmp_path / "run", window(0, annotation_ns=marks)))
    assert found.marks_ns == {"ProfilerStep#3": 1_000}
    assert (found.run, found.window) == (tmp_path / "run", 0)


def test_windows_are_found_without_reading_what_else_ranks_recorded(tmp_path, monkeypatch):
    folder = run(tmp_path / "run", window(0), extra=["steps.rank0.bin", "trace.rank1.0.json"])
    monkeypatch.setattr(recorded, "read_rows", lambda *_: pytest.fail("rows are large"))
    assert names(files.of_run(folder)) == ["trace.rank0.0.json", "trace.rank1.0.json"]


def test_a_window_by_its_name_is_still_that_of_its_run(tmp_path):
    folder = run(
        tmp_path / "run", window(0, annotation_ns={"ProfilerStep#3": 7}), extra=["trace.rank1.0.json"]
    )
    found = [files.of_file(folder / f"trace.rank{rank}.0.json") for rank in range(2)]
    assert [(file.run, file.rank, file.marks_ns) for file in found] == [
        (folder, 0, {"ProfilerStep#3": 7}),
        (folder, 1, {}),
    ]
    assert files.of_file(folder / "other.json") == files.TraceFile(folder / "other.json")


def test_windows_without_their_events_are_found_by_their_names(tmp_path):
    folder = run(tmp_path / "run", extra=["trace.rank0.0.json", "trace.rank0.x.json"])
    (found,) = files.of_run(folder)
    assert found.marks_ns == {}


def test_what_a_run_does_not_have_is_said(tmp_path):
    with pytest.raises(NotATrace, match="none was recorded"):
        files.of_run(run(tmp_path / "empty"))
    with pytest.raises(NotATrace, match="no window 7") as caught:
        files.of_run(run(tmp_path / "run", window(0), window(1)), 7)
    assert caught.value.hint == "It has these: 0, 1"


def test_a_folder_of_ranks_is_no_run(tmp_path):
    assert not files.is_run(touch(tmp_path / "ranks", "rank0.json"))


ONE = rank(rank=0, file="a.json")


def test_ranks_of_one_recording_fit():
    files.check([ONE, rank(rank=1, file="b.json"), rank(rank=None), rank(rank=None)])


def test_two_files_of_one_rank_are_named():
    with pytest.raises(TracesDoNotFit, match=r"a\.json and b\.json are both of rank 0"):
        files.check([ONE, replace(ONE, file="b.json")])


def test_files_of_different_steps_are_named_with_their_steps():
    later = rank((step(20), step(21)), rank=1, file="b.json")
    with pytest.raises(TracesDoNotFit) as caught:
        files.check([ONE, later])
    said = str(caught.value)
    assert "a.json holds ProfilerStep#3 to ProfilerStep#7" in said
    assert "b.json ProfilerStep#20 to ProfilerStep#21" in said


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(rank((step(3), step(4)), rank=1), id="cut-off"),
        pytest.param(unmarked(rank=1), id="not-marked"),
    ],
)
def test_a_file_that_ends_early_or_marks_no_steps_still_fits(other):
    files.check([ONE, other])


def test_json_that_is_no_trace_is_left_out_of_a_folder(tmp_path):
    folder = touch(tmp_path / "mixed", "config.json", "trace_options.json")
    for name in ("rank0.json", "rank1.json"):
        (folder / name).write_text('{"schemaVersion": 1, "traceEvents": []}')
    assert names(files.of_folder(folder)) == ["rank0.json", "rank1.json"]


def test_a_file_that_cannot_be_read_is_not_left_out_of_a_folder_in_silence(tmp_path):
    folder = touch(tmp_path / "broken", "notes.json")
    (folder / "rank0.trace.json").write_text('[{"ph": "X"}]')
    (folder / "rank1.trace.json").write_text("")
    assert names(files.of_folder(folder)) == ["rank0.trace.json", "rank1.trace.json"]
