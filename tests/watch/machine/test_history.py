from __future__ import annotations

import fcntl
import os
import stat
import subprocess
import sys

import pytest

from perfdoctor.runs import directory
from perfdoctor.watch.machine import history
from tests.support.histories import tried
from tests.support.paths import ROOT

ADDING = """
import sys
from perfdoctor.watch.machine import history
from tests.support.histories import tried
for number in range(10):
    history.add([tried(number, script=sys.argv[1])])
"""


@pytest.fixture
def kept(tmp_path, monkeypatch):
    """Where the history lies, in a folder that is not there yet."""
    monkeypatch.setenv(history.VARIABLE, str(tmp_path / "new" / "history"))
    return history.file()


def scripts():
    return [change.script for change in history.read()[0]]


def test_changes_are_read_back_as_they_were_added_and_nobody_else_can_read_them(kept):
    assert history.read() == ([], 0)
    history.add([tried(1), tried(2)])
    history.add([tried(3)])
    assert history.read() == ([tried(1), tried(2), tried(3)], 0)
    assert stat.S_IMODE(kept.stat().st_mode) == 0o600
    assert stat.S_IMODE(kept.parent.stat().st_mode) == 0o700
    assert {file.suffix for file in kept.parent.iterdir()} == {".jsonl", ".lock"}


@pytest.mark.parametrize(
    "line",
    [
        b"\xff\x00 no text",
        b"{",
        b"[]",
        b"7",
        b"{}",
        b'{"version": 2}',
        b"A" * 9,
    ],
)
def test_a_line_that_tells_nothing_is_counted_and_left_out(kept, line):
    history.add([tried(1)])
    kept.write_bytes(line + b"\n" + kept.read_bytes())
    history.add([tried(2)])
    assert history.read() == ([tried(1), tried(2)], 1)


@pytest.mark.parametrize(
    ("was", "wrong"),
    [
        ('"low":1.2', '"low":0.0'),
        ('"low":1.2', '"low":9.0'),
        ('"low":1.2', '"low":null'),
        ('"data"', '"magic"'),
        ('"faster"', '"quicker"'),
        ('"cpu"', "7"),
        ('"epoch_s":1700003600.0', '"epoch_s":1e300'),
    ],
)
def test_a_value_that_cannot_be_is_a_line_that_tells_nothing(kept, was, wrong):
    history.add([tried(1)])
    text = kept.read_text()
    assert was in text
    kept.write_text(text.replace(was, wrong))
    assert history.read() == ([], 1)


def test_a_line_that_was_cut_off_takes_no_other_with_it(kept):
    history.add([tried(1), tried(2)])
    kept.write_bytes(kept.read_bytes()[:-9])
    history.add([tried(3)])
    assert history.read() == ([tried(1), tried(3)], 1)


def test_a_name_that_is_no_text_is_kept_with_its_bytes_escaped(kept):
    history.add([tried(1, script="caf\udce9")])
    assert scripts() == ["caf\\udce9"]


def test_only_the_newest_are_kept_and_long_names_are_cut(kept, monkeypatch):
    monkeypatch.setattr(history, "MOST_LINES", 3)
    for number in range(5):
        history.add([tried(number)])
    assert scripts() == ["train2", "train3", "train4"]
    history.add([tried(5, script="x" * 9999, tweaks=("--workers " + "4" * 9999,))])
    assert len(kept.read_bytes().splitlines()[-1]) < 1000


@pytest.mark.process
def test_no_line_of_several_processes_is_lost(kept):
    words = [sys.executable, "-c", ADDING]
    adding = [subprocess.Popen([*words, name], cwd=ROOT) for name in "abcd"]
    assert [process.wait(60) for process in adding] == [0] * 4
    assert sorted(scripts()) == sorted("abcd" * 10)


def test_a_process_that_never_lets_go_is_not_waited_for(kept, monkeypatch):
    monkeypatch.setattr(history, "LOCK_S", 0.02)
    history.add([tried(1)])
    with open(kept.with_suffix(".lock")) as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        with pytest.raises(TimeoutError):
            history.add([tried(2)])
    history.add([tried(3)])
    assert scripts() == ["train1", "train3"]


def test_where_there_is_no_room_the_history_stays_as_it_was(kept, monkeypatch):
    history.add([tried(1)])

    def full(draft, path):
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr(directory.os, "replace", full)
        with pytest.raises(OSError, match="No space left"):
            history.add([tried(2)])
    assert history.read() == ([tried(1)], 0)
    assert not list(kept.parent.glob("*.part"))


def test_a_place_that_cannot_be_written_to_is_an_error_of_the_system(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    monkeypatch.setenv(history.VARIABLE, str(tmp_path / "file" / "history"))
    with pytest.raises(OSError, match="Not a directory"):
        history.add([tried()])


def test_it_lies_in_the_users_data_folder_in_a_file_for_each_host(tmp_path, monkeypatch):
    monkeypatch.setenv(history.VARIABLE, "")
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.setattr("platform.node", lambda: "node/1.lab")
    history.add([tried()])
    assert history.file() == tmp_path / "perfdoctor" / "history" / "node-1-lab.jsonl"
    assert scripts() == ["train0"]
    monkeypatch.setattr("platform.node", lambda: "node2")
    assert history.read() == ([], 0)
    monkeypatch.delenv("XDG_DATA_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert history.file() == tmp_path / ".local" / "share" / "perfdoctor" / "history" / "node2.jsonl"


def test_it_can_be_turned_off(monkeypatch):
    assert os.environ[history.VARIABLE] == history.OFF  # as it is in all tests
    history.add([tried()])
    assert (history.file(), history.read()) == (None, ([], 0))


def test_what_is_cleared_is_gone(kept):
    history.clear()
    history.add([tried()])
    history.clear()
    assert history.read() == ([], 0)
    assert not kept.exists()
