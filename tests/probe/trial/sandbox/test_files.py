import errno
import os
import posix

import pytest

from perfdoctor.probe.trial.sandbox import files


@pytest.mark.parametrize(
    ("path", "folder", "is_inside"),
    [("/a", "/a", True), ("/a/b", "/a", True), ("/ab", "/a", False), ("/", "/a", False)],
)
def test_inside_is_told_by_whole_names(path, folder, is_inside):
    assert files.inside(path, folder) is is_inside


def test_names_are_joined_and_parted_at_the_root_too():
    assert (files.join("/", "a"), files.join("/a", "b")) == ("/a", "/a/b")
    assert (files.parent("/a"), files.parent("/a/b"), files.parent("/")) == ("/", "/a", "/")


def test_a_copy_keeps_content_mode_and_times(tmp_path):
    source, target = tmp_path / "source", tmp_path / "target"
    source.write_bytes(b"x" * 100)
    source.chmod(0o640)
    os.utime(source, ns=(1, 2))
    files.copy(str(source), str(target))
    assert target.read_bytes() == source.read_bytes()
    assert (target.stat().st_mode, target.stat().st_mtime_ns) == (source.stat().st_mode, 2)
    assert sorted(os.listdir(tmp_path)) == ["source", "target"]


def test_what_cannot_be_renamed_elsewhere_is_copied_and_removed(tmp_path, monkeypatch):
    rename = posix.rename

    def forbidden(source, target):
        if os.path.dirname(source) != os.path.dirname(target):
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
        rename(source, target)

    monkeypatch.setattr(posix, "rename", forbidden)
    (tmp_path / "folder" / "deep").mkdir(parents=True)
    (tmp_path / "folder" / "deep" / "file").write_text("x")
    (tmp_path / "folder" / "link").symlink_to("deep")
    (tmp_path / "other").mkdir()
    files.move(str(tmp_path / "folder"), str(tmp_path / "other" / "folder"))
    assert (tmp_path / "other" / "folder" / "link" / "file").read_text() == "x"
    assert os.readlink(tmp_path / "other" / "folder" / "link") == "deep"
    assert os.listdir(tmp_path) == ["other"]


def test_other_errors_of_a_rename_are_told(tmp_path):
    with pytest.raises(FileNotFoundError):
        files.move(str(tmp_path / "none"), str(tmp_path / "other"))


def test_a_folder_that_is_there_is_made(tmp_path):
    files.make_folder(str(tmp_path), 0o700)
    files.make_folder(str(tmp_path / "new"), 0o700)
    assert (tmp_path / "new").is_dir()
