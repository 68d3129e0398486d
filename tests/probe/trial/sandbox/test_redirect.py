import errno
import io
import os
import posix
import shutil
import stat
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perfdoctor.probe.trial.sandbox import redirect, write_redirection
from perfdoctor.probe.trial.sandbox.overlay import WriteOverlay

PLAIN = {name: getattr(os, name) for name in [*write_redirection.KINDS, *write_redirection.NAMED]} | {
    "stream": io.open
}


class Functions:
    """Functions as a script gets them."""

    def __init__(self, execution, real=()):
        self.redirect = redirect.Redirect(WriteOverlay(str(execution), real))
        methods = {
            **write_redirection.KINDS,
            **{name: getattr(redirect.Redirect, name) for name in write_redirection.NAMED},
        }
        methods["stream"] = redirect.Redirect.stream
        for name, method in methods.items():
            setattr(self, name, redirect.bound(self.redirect, PLAIN[name], method))


class Bare:
    """The functions as they are."""

    def __init__(self):
        for name, function in PLAIN.items():
            setattr(self, name, function)


def fill(folder):
    (folder / "d" / "e").mkdir(parents=True)
    (folder / "d" / "a").write_text("one")
    (folder / "d" / "e" / "b").write_text("two")
    (folder / "a").write_text("three")
    (folder / "link").symlink_to("d")
    (folder / "b").symlink_to("a")
    return folder


def tree(functions, folder, at=""):
    """All that is to be seen below a folder: {name: what it is}."""
    found = {}
    for name in functions.listdir(os.path.join(folder, at)):
        path, short = os.path.join(folder, at, name), os.path.join(at, name)
        mode = functions.lstat(path).st_mode
        if stat.S_ISDIR(mode):
            found |= {short: "folder"} | tree(functions, folder, short)
        elif stat.S_ISLNK(mode):
            found[short] = functions.readlink(path)
        else:
            with functions.stream(path) as file:
                found[short] = file.read()
    return found


@pytest.fixture
def work(tmp_path):
    (tmp_path / "execution").mkdir()
    return fill(tmp_path / "work")


@pytest.fixture
def functions(work, tmp_path):
    return Functions(tmp_path / "execution")


PATHS = st.sampled_from(
    "a b d d/a d/b d/e d/e/a d/e/b link link/a link/e/b link/f f f/a f/g b/c d/./a".split()
)
ACTIONS = st.one_of(
    st.tuples(st.sampled_from(["w", "a", "x", "r", "r+"]), PATHS),
    st.tuples(st.sampled_from("unlink rmdir mkdir listdir stat lstat readlink chmod".split()), PATHS),
    st.tuples(st.sampled_from(["rename", "replace", "symlink", "link"]), PATHS, PATHS),
)


def act(functions, folder, what, *paths):
    """The outcome of one action: what it returns that can be compared, or the number of its error."""
    full = [os.path.join(folder, path) for path in paths]
    try:
        if what in redirect.MODES or what == "r+":
            with functions.stream(full[0], what) as file:
                return file.read() if "r" in what else file.write(what)
        if what == "chmod":
            return functions.chmod(full[0], 0o700)
        done = getattr(functions, what)(*([paths[0], full[1]] if what == "symlink" else full))
    except OSError as error:
        return errno.ENOENT if error.errno == errno.ENOTDIR else error.errno  # both: there is no such file
    return sorted(done) if what == "listdir" else done.st_size if what == "stat" else None


@settings(max_examples=60, deadline=None)
@given(actions=st.lists(ACTIONS, max_size=12))
def test_a_script_sees_what_it_would_see_if_its_changes_were_real(actions):
    with tempfile.TemporaryDirectory() as base:
        users, twin, execution = (os.path.join(base, name) for name in ("users", "twin", "execution"))
        os.mkdir(execution)
        bare, functions = Bare(), Functions(execution)
        fill(Path(users))
        shutil.copytree(users, twin, symlinks=True)
        before = tree(bare, users)
        for action in actions:
            assert act(functions, users, *action) == act(bare, twin, *action), action
        assert tree(functions, users) == tree(bare, twin)
        assert tree(Functions(execution), users) == tree(bare, twin), "in another process"
        assert tree(bare, users) == before


def test_a_file_carries_the_name_that_it_was_opened_by(functions, work, monkeypatch):
    monkeypatch.chdir(work)
    for mode in ("w", "wb", "a+", "rb"):
        with functions.stream("new", mode) as file:
            assert file.name == "new"
    with functions.stream("new", "rb", buffering=0) as file:
        assert file.name == "new"


def test_an_error_names_the_path_as_it_was_given(functions, work, monkeypatch):
    monkeypatch.chdir(work)
    functions.unlink("a")
    for call in (functions.unlink, functions.stat, functions.stream, functions.listdir):
        with pytest.raises(FileNotFoundError) as caught:
            call("a")
        assert caught.value.filename == "a"
    with pytest.raises(FileNotFoundError) as caught:
        functions.stream("none/a", "w")
    assert caught.value.filename == "none/a"


def test_descriptors_and_what_is_no_path_go_to_the_original(functions, work):
    with open(work / "a", encoding="utf-8") as file:
        assert functions.stat(file.fileno()).st_size == 5
    folder = os.open(work, os.O_RDONLY)
    assert sorted(functions.listdir(folder)) == ["a", "b", "d", "link"]
    with pytest.raises(FileNotFoundError):
        functions.stat("")
    with pytest.raises(TypeError):
        functions.stat(1.5)
    with pytest.raises(ValueError, match="invalid mode"):
        functions.stream(work / "a", "q")
    functions.unlink("a", dir_fd=folder)
    os.close(folder)
    assert not functions.access(work / "a", os.F_OK)
    assert (work / "a").exists()


def test_paths_in_bytes_are_answered_in_bytes(functions, work):
    path = os.fsencode(work)
    functions.mkdir(os.path.join(path, b"new"))
    assert sorted(functions.listdir(path)) == [b"a", b"b", b"d", b"link", b"new"]
    assert {entry.name for entry in functions.scandir(path)} >= {b"new", b"a"}
    with functions.stream(os.path.join(path, b"new", b"file"), "wb") as file:
        file.write(b"x")
    assert functions.stat(os.path.join(path, b"new/file")).st_size == 1


def test_the_current_folder_may_be_one_that_only_the_script_sees(functions, work, monkeypatch):
    monkeypatch.chdir(work)
    functions.mkdir("new")
    functions.chdir("new")
    try:
        assert functions.getcwd() == str(work / "new")
        assert functions.getcwdb() == os.fsencode(work / "new")
        with functions.stream("file", "w") as file:
            file.write("x")
        assert functions.listdir() == ["file"]
        functions.chdir("..")
        assert functions.getcwd() == str(work)
    finally:
        os.chdir(work)
    assert functions.stat("new/file").st_size == 1
    assert not (work / "new").exists()


def test_entries_of_a_mixed_folder_are_like_the_systems_own(functions, work, monkeypatch):
    with functions.stream(work / "new", "w") as file:
        file.write("x")
    monkeypatch.setattr(os, "stat", functions.stat)  # as it is where the redirect is at work
    monkeypatch.setattr(os, "lstat", functions.lstat)
    with functions.scandir(work) as entries:
        found = {entry.name: entry for entry in entries}
    assert set(found) == {"a", "b", "d", "link", "new"}
    assert {name for name, entry in found.items() if entry.is_dir()} == {"d", "link"}
    assert {name for name, entry in found.items() if entry.is_dir(follow_symlinks=False)} == {"d"}
    assert {name for name, entry in found.items() if entry.is_file(follow_symlinks=False)} == {"a", "new"}
    assert {name for name, entry in found.items() if entry.is_symlink()} == {"b", "link"}
    assert os.fspath(found["new"]) == found["new"].path == str(work / "new")
    assert found["new"].stat().st_size == 1
    assert found["a"].inode() == (work / "a").stat().st_ino
    assert repr(found["a"]) == "<DirEntry 'a'>"


def test_a_folder_with_nothing_of_the_scripts_has_the_systems_entries(functions, work):
    with functions.scandir(work) as entries:
        assert all(isinstance(entry, os.DirEntry) for entry in entries)


def test_what_may_not_be_written_to_stays_so(functions, work, monkeypatch):
    refused = {str(work / "a"), str(work / "d")}  # root may write anywhere: the system is asked for us
    monkeypatch.setattr(posix, "access", lambda path, mode: path not in refused)
    for path in (work / "a", work / "d" / "new"):
        with pytest.raises(PermissionError):
            functions.stream(path, "w")
    with functions.stream(work / "d" / "a", "a") as file:  # the file may, though its folder may not
        file.write("x")


def test_beside_the_overlay_everything_is_real(work, tmp_path):
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    functions = Functions(tmp_path / "execution", (str(scratch),))
    with functions.stream(scratch / "file", "w") as file:
        file.write("x")
    functions.mkdir(scratch / "folder")
    functions.rename(scratch / "file", scratch / "folder" / "file")
    functions.chmod(scratch / "folder", 0o700)
    assert (scratch / "folder" / "file").read_text() == "x"
    functions.rename(scratch / "folder", work / "moved")
    assert not (scratch / "folder").exists()
    assert not (work / "moved").exists()
    assert functions.listdir(work / "moved") == ["file"]
    functions.unlink(work / "moved" / "file")
    functions.rmdir(work / "moved")
    assert "moved" not in functions.listdir(work)


@pytest.mark.parametrize(
    ("mode", "flags"),
    [
        ("rb", os.O_RDONLY),
        ("r+", os.O_RDWR),
        ("wt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC),
        ("ab", os.O_WRONLY | os.O_CREAT | os.O_APPEND),
        ("x", os.O_WRONLY | os.O_CREAT | os.O_EXCL),
    ],
)
def test_modes_mean_flags(mode, flags):
    assert redirect.flags(mode) == flags
