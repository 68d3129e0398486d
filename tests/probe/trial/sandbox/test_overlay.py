import os

import pytest

from perfdoctor.probe.trial.sandbox import overlay as module
from perfdoctor.probe.trial.sandbox.overlay import WriteOverlay


@pytest.fixture
def work(tmp_path):
    (tmp_path / "execution").mkdir()
    work = tmp_path / "work"
    (work / "out").mkdir(parents=True)
    (work / "out" / "log").write_text("one\n")
    return work


@pytest.fixture
def overlay(work, tmp_path):
    return WriteOverlay(str(tmp_path / "execution"), (str(tmp_path / "execution"), "/dev"))


def write(overlay, path, text, flags=os.O_WRONLY | os.O_CREAT | os.O_TRUNC):
    descriptor = os.open(overlay.opened(str(path), flags), flags, 0o600)
    os.write(descriptor, text.encode())
    os.close(descriptor)


def read(overlay, path):
    with open(overlay.find(str(path), True), encoding="utf-8") as file:
        return file.read()


def test_what_is_appended_goes_to_a_copy(overlay, work):
    (work / "out" / "log").chmod(0o640)
    write(overlay, work / "out" / "log", "two\n", os.O_WRONLY | os.O_APPEND)
    assert read(overlay, work / "out" / "log") == "one\ntwo\n"
    assert (work / "out" / "log").read_text() == "one\n"
    assert os.stat(overlay.find(str(work / "out" / "log"), True)).st_mode & 0o777 == 0o640


def test_what_nobody_changed_is_found_where_it_is(overlay, work):
    for path in (work / "out" / "log", work / "none", "/dev/null", "/"):
        assert overlay.find(str(path), True) == str(path)
    assert not overlay.is_mixed(str(work))


def test_a_folder_removed_and_made_anew_is_empty(overlay, work):
    out = str(work / "out")
    overlay.remove(out + "/log")
    overlay.remove_folder(out)
    assert not overlay.exists(out)
    assert overlay.entries(str(work)) == []
    overlay.make_folder(out, 0o755)
    assert overlay.entries(out) == []
    assert not overlay.exists(out + "/log")
    assert (work / "out" / "log").exists()


def test_other_processes_learn_of_it_at_once(overlay, work, tmp_path):
    other = WriteOverlay(str(tmp_path / "execution"), ())
    assert read(other, work / "out" / "log") == "one\n"
    write(overlay, work / "out" / "log", "new\n")
    assert read(other, work / "out" / "log") == "new\n"
    other.remove(str(work / "out" / "log"))
    with pytest.raises(FileNotFoundError):
        read(overlay, work / "out" / "log")


def test_a_line_that_is_not_complete_yet_is_read_later(overlay, work, tmp_path):
    with open(tmp_path / "execution" / "journal", "ab") as journal:
        journal.write(b"-" + os.fsencode(work / "out"))
        journal.flush()
        assert read(overlay, work / "out" / "log") == "one\n"
        journal.write(b"\0")
        journal.flush()
        assert not overlay.exists(overlay.name(str(work / "out" / "log"), True))


def test_a_moved_folder_takes_all_along(overlay, work):
    (work / "out" / "deep").mkdir()
    (work / "out" / "deep" / "file").write_text("x")
    overlay.rename(str(work / "out"), str(work / "moved"))
    assert overlay.entries(str(work)) == ["moved"]
    assert read(overlay, work / "moved" / "deep" / "file") == "x"
    assert sorted(overlay.entries(str(work / "moved"))) == ["deep", "log"]
    assert sorted(os.listdir(work)) == ["out"]


def test_links_lead_to_what_was_changed_behind_them(overlay, work):
    (work / "latest").symlink_to("out")
    (work / "best").symlink_to(work / "out" / "log")
    write(overlay, work / "latest" / "log", "new\n")
    assert read(overlay, work / "out" / "log") == read(overlay, work / "best") == "new\n"
    overlay.remove(str(work / "latest"))
    overlay.link(str(work / "latest"), "elsewhere")
    with pytest.raises(FileNotFoundError):
        read(overlay, work / "latest" / "log")


def test_links_in_a_circle_are_an_error(overlay, work):
    (work / "one").symlink_to("two")
    (work / "two").symlink_to("one")
    with pytest.raises(OSError, match="Too many levels"):
        overlay.find(str(work / "one" / "file"), True)


def test_a_copy_that_is_being_made_is_not_listed(overlay, work):
    write(overlay, work / "new", "x")
    (work.parent / "execution" / "files" / str(work)[1:] / f"{module.DRAFT}1.1").touch()
    assert sorted(overlay.entries(str(work))) == ["new", "out"]


def test_a_socket_cannot_be_changed(overlay, work):
    os.mkfifo(work / "pipe")
    with pytest.raises(PermissionError):
        overlay.own(str(work / "pipe"))


def test_paths_in_the_overlay_mean_the_users(overlay, work, monkeypatch):
    write(overlay, work / "new", "x")
    inner = overlay.find(str(work / "new"), True)
    assert inner != str(work / "new")
    assert overlay.absolute(inner) == str(work / "new")
    monkeypatch.chdir(os.path.dirname(inner))
    assert overlay.cwd() == str(work)
    assert overlay.absolute("new") == str(work / "new")
