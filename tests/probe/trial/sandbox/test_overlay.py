import os

import pytest

from perfdoctor.probe.trial.sandbox import overlay as module
from perfdoctor.probe.trial.sandbox.overlay import Shadow


@pytest.fixture
def work(tmp_path):
    (tmp_path / "execution").mkdir()
    work = tmp_path / "work"
    (work / "out").mkdir(parents=True)
    (work / "out" / "log").write_text("one\n")
    return work


@pytest.fixture
def shadow(work, tmp_path):
    return Shadow(str(tmp_path / "execution"), (str(tmp_path / "execution"), "/dev"))


def write(shadow, path, text, flags=os.O_WRONLY | os.O_CREAT | os.O_TRUNC):
    descriptor = os.open(shadow.opened(str(path), flags), flags, 0o600)
    os.write(descriptor, text.encode())
    os.close(descriptor)


def read(shadow, path):
    with open(shadow.find(str(path), True), encoding="utf-8") as file:
        return file.read()


def test_what_is_appended_goes_to_a_copy(shadow, work):
    (work / "out" / "log").chmod(0o640)
    write(shadow, work / "out" / "log", "two\n", os.O_WRONLY | os.O_APPEND)
    assert read(shadow, work / "out" / "log") == "one\ntwo\n"
    assert (work / "out" / "log").read_text() == "one\n"
    assert os.stat(shadow.find(str(work / "out" / "log"), True)).st_mode & 0o777 == 0o640


def test_what_nobody_changed_is_found_where_it_is(shadow, work):
    for path in (work / "out" / "log", work / "none", "/dev/null", "/"):
        assert shadow.find(str(path), True) == str(path)
    assert not shadow.is_mixed(str(work))


def test_a_folder_removed_and_made_anew_is_empty(shadow, work):
    out = str(work / "out")
    shadow.remove(out + "/log")
    shadow.remove_folder(out)
    assert not shadow.exists(out)
    assert shadow.entries(str(work)) == []
    shadow.make_folder(out, 0o755)
    assert shadow.entries(out) == []
    assert not shadow.exists(out + "/log")
    assert (work / "out" / "log").exists()


def test_other_processes_learn_of_it_at_once(shadow, work, tmp_path):
    other = Shadow(str(tmp_path / "execution"), ())
    assert read(other, work / "out" / "log") == "one\n"
    write(shadow, work / "out" / "log", "new\n")
    assert read(other, work / "out" / "log") == "new\n"
    other.remove(str(work / "out" / "log"))
    with pytest.raises(FileNotFoundError):
        read(shadow, work / "out" / "log")


def test_a_line_that_is_not_complete_yet_is_read_later(shadow, work, tmp_path):
    with open(tmp_path / "execution" / "journal", "ab") as journal:
        journal.write(b"-" + os.fsencode(work / "out"))
        journal.flush()
        assert read(shadow, work / "out" / "log") == "one\n"
        journal.write(b"\0")
        journal.flush()
        assert not shadow.exists(shadow.name(str(work / "out" / "log"), True))


def test_a_moved_folder_takes_all_along(shadow, work):
    (work / "out" / "deep").mkdir()
    (work / "out" / "deep" / "file").write_text("x")
    shadow.rename(str(work / "out"), str(work / "moved"))
    assert shadow.entries(str(work)) == ["moved"]
    assert read(shadow, work / "moved" / "deep" / "file") == "x"
    assert sorted(shadow.entries(str(work / "moved"))) == ["deep", "log"]
    assert sorted(os.listdir(work)) == ["out"]


def test_links_lead_to_what_was_changed_behind_them(shadow, work):
    (work / "latest").symlink_to("out")
    (work / "best").symlink_to(work / "out" / "log")
    write(shadow, work / "latest" / "log", "new\n")
    assert read(shadow, work / "out" / "log") == read(shadow, work / "best") == "new\n"
    shadow.remove(str(work / "latest"))
    shadow.link(str(work / "latest"), "elsewhere")
    with pytest.raises(FileNotFoundError):
        read(shadow, work / "latest" / "log")


def test_links_in_a_circle_are_an_error(shadow, work):
    (work / "one").symlink_to("two")
    (work / "two").symlink_to("one")
    with pytest.raises(OSError, match="Too many levels"):
        shadow.find(str(work / "one" / "file"), True)


def test_a_copy_that_is_being_made_is_not_listed(shadow, work):
    write(shadow, work / "new", "x")
    (work.parent / "execution" / "files" / str(work)[1:] / f"{module.DRAFT}1.1").touch()
    assert sorted(shadow.entries(str(work))) == ["new", "out"]


def test_a_socket_cannot_be_changed(shadow, work):
    os.mkfifo(work / "pipe")
    with pytest.raises(PermissionError):
        shadow.own(str(work / "pipe"))


def test_paths_in_the_shadow_mean_the_users(shadow, work, monkeypatch):
    write(shadow, work / "new", "x")
    inner = shadow.find(str(work / "new"), True)
    assert inner != str(work / "new")
    assert shadow.absolute(inner) == str(work / "new")
    monkeypatch.chdir(os.path.dirname(inner))
    assert shadow.cwd() == str(work)
    assert shadow.absolute("new") == str(work / "new")
