from __future__ import annotations

import pytest

from perfdoctor.errors import NotATrace
from perfdoctor.trace.parse import files


def touch(folder, *names):
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        (folder / name).write_text("{}")
    return folder


def names(found):
    return [path.name for path in found]


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
