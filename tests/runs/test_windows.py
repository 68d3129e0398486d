from __future__ import annotations

import json

import pytest

from perfdoctor.errors import NotATrace
from perfdoctor.runs import directory, records, windows


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


def test_the_latest_plain_window_of_a_run_is_meant_unless_one_is_named(tmp_path):
    folder = run(tmp_path / "run", window(0), window(1), window(2, "stacks"))
    assert directory.is_run(folder)
    assert names(windows.of_run(folder)) == ["trace.rank0.1.json"]
    assert names(windows.of_run(folder, 2)) == ["trace.rank0.2.json"]


def test_a_window_without_a_plain_one_is_better_than_none(tmp_path):
    assert names(windows.of_run(run(tmp_path / "run", window(0, "shapes")))) == ["trace.rank0.0.json"]


def test_a_window_that_only_some_ranks_recorded_is_not_preferred(tmp_path):
    folder = run(tmp_path / "run", window(0), window(1), extra=["trace.rank1.0.json.gz"])
    found = windows.of_run(folder)
    assert names(found) == ["trace.rank0.0.json", "trace.rank1.0.json.gz"]
    assert [file.rank for file in found] == [0, 1]


def test_a_window_carries_what_ties_its_clock_to_the_runs(tmp_path):
    begins = {"ProfilerStep#3": 1_000, "broken": "x", "true": True}
    (found,) = windows.of_run(run(tmp_path / "run", window(0, annotation_ns=begins)))
    assert found.annotations_ns == {"ProfilerStep#3": 1_000}
    assert (found.run, found.number) == (tmp_path / "run", 0)


def test_windows_are_found_without_reading_what_else_ranks_recorded(tmp_path, monkeypatch):
    folder = run(tmp_path / "run", window(0), extra=["steps.rank0.bin", "trace.rank1.0.json"])
    monkeypatch.setattr(records, "read_rows", lambda *_: pytest.fail("rows are large"))
    assert names(windows.of_run(folder)) == ["trace.rank0.0.json", "trace.rank1.0.json"]


def test_a_window_by_its_name_is_still_that_of_its_run(tmp_path):
    folder = run(
        tmp_path / "run", window(0, annotation_ns={"ProfilerStep#3": 7}), extra=["trace.rank1.0.json"]
    )
    found = [windows.of_file(folder / f"trace.rank{rank}.0.json") for rank in range(2)]
    assert [(file.run, file.rank, file.annotations_ns) for file in found] == [
        (folder, 0, {"ProfilerStep#3": 7}),
        (folder, 1, {}),
    ]
    assert windows.of_file(folder / "other.json") is None


def test_windows_without_their_events_are_found_by_their_names(tmp_path):
    folder = run(tmp_path / "run", extra=["trace.rank0.0.json", "trace.rank0.x.json"])
    (found,) = windows.of_run(folder)
    assert found.annotations_ns == {}


def test_what_a_run_does_not_have_is_said(tmp_path):
    with pytest.raises(NotATrace, match="no trace was recorded"):
        windows.of_run(run(tmp_path / "empty"))
    with pytest.raises(NotATrace, match="no window 7") as caught:
        windows.of_run(run(tmp_path / "run", window(0), window(1)), 7)
    assert caught.value.hint == "it has these: 0, 1"


def test_a_folder_of_ranks_is_no_run(tmp_path):
    assert not directory.is_run(touch(tmp_path / "ranks", "rank0.json"))


def test_the_windows_of_the_lowest_rank_are_given_by_kind_the_last_of_each(tmp_path):
    folder = run(
        tmp_path / "run",
        window(0),
        window(1),
        window(2, "stacks"),
        extra=["trace.rank1.3.json", "steps.rank0.bin"],
    )
    ranks = {0: records.RankRecords(0, None, None, records.read(folder).ranks[0].events)}
    found = windows.of_lowest_rank(folder, ranks)
    assert {kind: path.name for kind, path in found.items()} == {
        "plain": "trace.rank0.1.json",
        "stacks": "trace.rank0.2.json",
    }
