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


def test_of_several_recordings_of_one_worker_the_latest_is_taken(tmp_path):
    old, new = "host_12.1623143089861.pt.trace.json", "host_12.1796126176259090050.pt.trace.json.gz"
    folder = touch(tmp_path / "cycles", old, new, "host_13.1623143089999.pt.trace.json")
    found = files.of_folder(folder)
    assert names(files.latest(found)) == [new, "host_13.1623143089999.pt.trace.json"]


def test_ranks_that_share_a_workers_name_are_kept(tmp_path):
    for stamp, rank in ((1623143089861, 0), (1623143089862, 1), (1623143099999, 1)):
        text = f'{{"distributedInfo": {{"backend": "nccl", "rank": {rank}, "world_size": 2}}, "traceEvents": []}}'
        (tmp_path / f"train.{stamp}.pt.trace.json").write_text(text)
    assert names(files.latest(files.of_folder(tmp_path))) == [
        "train.1623143089861.pt.trace.json",
        "train.1623143099999.pt.trace.json",
    ]


def test_names_without_a_stamp_and_files_that_cannot_be_read_stand_for_themselves(tmp_path):
    folder = touch(tmp_path, "worker0.pt.trace.json", "rank0.Apr_03_18_51_38.1102.pt.trace.json")
    (folder / "host_1.1623143089861.pt.trace.json").write_text("")
    assert files.latest(found := files.of_folder(folder)) == found
