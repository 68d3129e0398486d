import gzip
import os

import pytest

from perfdoctor.runs import directory


def test_what_is_beside_a_folder_is_listed_from_where_it_is_kept(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    kept, other = tmp_path / "o p" / "20260102-a", tmp_path / "other"
    for folder in (kept, other, tmp_path / ".perfdoctor" / "runs" / "20260102-b"):
        folder.mkdir(parents=True)
    (kept / directory.RUN).touch()
    assert directory.option(kept.with_name("damaged")) == f" --out '{tmp_path}/o p'"
    assert directory.option(other) == ""
    assert directory.option(tmp_path / ".perfdoctor" / "runs" / "20260102-b") == ""


def test_packed_traces_replace_the_plain_ones(tmp_path):
    plain = tmp_path / "trace.rank0.0.json"
    plain.write_bytes(b'{"traceEvents": []}' * 1000)
    text = plain.read_bytes()
    directory.pack_traces(tmp_path)
    (packed,) = tmp_path.iterdir()
    assert packed.name == "trace.rank0.0.json.gz"
    assert gzip.decompress(packed.read_bytes()) == text
    assert packed.stat().st_size < len(text) / 5
    assert packed.stat().st_mode & 0o777 == 0o600


def test_a_trace_that_cannot_be_packed_stays_as_it_is(tmp_path, monkeypatch):
    plain = tmp_path / "trace.rank0.0.json"
    plain.write_text("{}")
    monkeypatch.setattr(
        directory.os, "replace", lambda *paths: (_ for _ in ()).throw(OSError(28, "disk full"))
    )
    with pytest.raises(OSError, match="disk full"):
        directory.pack_traces(tmp_path)
    assert plain.read_text() == "{}"
    assert not (tmp_path / "trace.rank0.0.json.gz").exists()


def test_drafts_of_a_killed_script_are_removed_and_a_second_packing_does_nothing(tmp_path):
    (tmp_path / "trace.rank0.0.json.part").write_text('{"trace')
    (tmp_path / "trace.rank1.0.json").write_text("{}")
    directory.pack_traces(tmp_path)
    directory.pack_traces(tmp_path)
    assert [entry.name for entry in tmp_path.iterdir()] == ["trace.rank1.0.json.gz"]


# ---------------------------------------------------------------- for the owner alone


@pytest.fixture
def usual_umask():
    """Under which anybody may read what is made without a thought."""
    before = os.umask(0o022)
    yield
    os.umask(before)


def mode(path):
    return path.stat().st_mode & 0o777


def test_a_run_directory_and_what_is_made_above_it_are_for_the_owner_alone(tmp_path, usual_umask):
    path = directory.create(tmp_path / "a" / "b", "train")
    assert [mode(folder) for folder in (path, path.parent, path.parent.parent)] == [0o700] * 3


def test_a_folder_that_is_there_keeps_its_mode(tmp_path, usual_umask):
    (tmp_path / "a").mkdir()
    directory.create(tmp_path / "a" / "b", "train")
    assert mode(tmp_path / "a") == 0o755


@pytest.mark.shows("nowhere-to-write")
def test_a_file_or_a_link_to_nowhere_in_the_place_of_a_folder_is_an_error(tmp_path):
    (tmp_path / "file").touch()
    (tmp_path / "link").symlink_to("nowhere")
    for name in ("file", "link"):
        with pytest.raises(NotADirectoryError):
            directory.make_private(tmp_path / name / "runs")


@pytest.mark.shows("private-files")
def test_files_are_for_the_owner_alone_and_never_written_through_a_link(tmp_path, usual_umask):
    others = tmp_path / "others"
    others.write_text("mine")
    for name in ("run.json.part", "run.json", "lines.jsonl"):
        (tmp_path / name).symlink_to(others)
    directory.write_json(tmp_path / "run.json", {"a": 1})
    with pytest.raises(OSError, match="symbolic links"):
        directory.append_line(tmp_path / "lines.jsonl", {"a": 1})
    assert others.read_text() == "mine"
    assert directory.read_json(tmp_path / "run.json") == {"a": 1}
    assert mode(tmp_path / "run.json") == 0o600
    assert not (tmp_path / "run.json").is_symlink()


@pytest.mark.shows("private-files")
def test_room_that_is_kept_free_is_for_the_owner_alone(tmp_path, usual_umask):
    directory.reserve(tmp_path)
    assert mode(tmp_path / directory.RESERVE) == 0o600


@pytest.fixture
def homeless(tmp_path, monkeypatch):
    """Neither the current folder nor the state folder can be made: only the temporary one is left."""
    (tmp_path / "work").mkdir()
    (tmp_path / "work" / ".perfdoctor").touch()
    (tmp_path / "state").touch()
    (tmp_path / "tmp").mkdir()
    monkeypatch.chdir(tmp_path / "work")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "tmp"))
    return tmp_path / "tmp" / f"perfdoctor-{os.getuid()}"


@pytest.mark.shows("nowhere-to-write")
def test_where_the_current_folder_is_gone_runs_are_kept_in_the_users(tmp_path, monkeypatch):
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    assert directory.home() == tmp_path / "state" / "perfdoctor" / "runs"
    monkeypatch.chdir(tmp_path)  # for whoever comes next


@pytest.mark.shows("nowhere-to-write")
def test_a_user_who_is_a_mere_number_needs_no_home(tmp_path, monkeypatch):
    def unknown(uid):
        raise KeyError(f"getpwuid(): uid not found: {uid}")

    for name in ("HOME", "XDG_STATE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr("pwd.getpwuid", unknown)
    monkeypatch.chdir(tmp_path)
    assert directory.home() == tmp_path / ".perfdoctor" / "runs"
    with pytest.raises(FileNotFoundError, match="no home folder"):
        directory.state_home()


@pytest.mark.shows("nowhere-to-write")
def test_the_temporary_folder_is_the_last_resort_and_private(homeless, usual_umask):
    assert directory.home() == homeless / "runs"
    assert [mode(folder) for folder in (homeless, homeless / "runs")] == [0o700] * 2


def made_by_another(folder):
    folder.mkdir(mode=0o700)
    if os.getuid() != 0:
        pytest.skip("only root can make a folder another's")
    os.chown(folder, 12345, 12345)


def open_to_all(folder):
    folder.mkdir()
    folder.chmod(0o777)


def a_link(folder):
    (folder.parent / "elsewhere").mkdir(mode=0o700)
    folder.symlink_to("elsewhere")


@pytest.mark.shows("private-files")
@pytest.mark.parametrize("spoil", [made_by_another, open_to_all, a_link])
def test_a_temporary_folder_that_others_could_change_is_neither_written_nor_searched(homeless, spoil):
    spoil(homeless)
    (homeless / "runs").mkdir()
    assert homeless / "runs" not in directory.places()
    assert homeless / "runs" != directory.home()


@pytest.mark.shows("private-files")
@pytest.mark.shows("disk-full")
def test_without_room_for_temporary_files_runs_are_found_all_the_same(tmp_path, monkeypatch):
    def no_room():
        raise FileNotFoundError(2, "No usable temporary directory found")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr("tempfile.gettempdir", no_room)
    assert directory.places() == [tmp_path / ".perfdoctor/runs", tmp_path / "state/perfdoctor/runs"]


def test_a_link_of_another_user_in_the_place_of_our_folder_is_not_followed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / ".perfdoctor").symlink_to("elsewhere")
    here = tmp_path / ".perfdoctor" / "runs"
    assert here in directory.places()  # the user's own link
    if os.getuid() != 0:
        pytest.skip("only root can make a link another's")
    os.chown(tmp_path / ".perfdoctor", 12345, 12345, follow_symlinks=False)
    assert here not in directory.places()
    assert directory.home() != here


def runs_of(parent, *runs):
    """Runs below `parent`: (name, when it started, when its run.json was written last)."""
    for name, started_s, written_s in runs:
        (parent / name).mkdir(parents=True)
        directory.write_json(parent / name / "run.json", {"started_epoch_s": started_s})
        os.utime(parent / name / "run.json", (written_s, written_s))


def test_the_newest_run_is_the_one_that_started_last_not_the_one_that_ended_last(tmp_path):
    runs_of(tmp_path, ("a", 100.0, 5000.0), ("b", 4000.0, 4010.0), ("c", 300.0, 310.0))
    (tmp_path / "no-run").mkdir()
    assert directory.newest(tmp_path) == tmp_path / "b"
    assert [path.name for path in directory.kept(tmp_path)] == ["b", "c", "a"]


def test_of_many_runs_the_newest_is_found_by_reading_the_last_ones(tmp_path, monkeypatch):
    runs_of(tmp_path, *((f"run{number}", 600.0 * number, 600.0 * number + 590) for number in range(50)))
    looked = []
    read = directory.read_json
    monkeypatch.setattr(directory, "read_json", lambda path: looked.append(path.parent.name) or read(path))
    assert directory.newest(tmp_path) == tmp_path / "run49"
    assert looked == ["run49", "run48"]


def test_a_run_whose_file_is_damaged_is_a_run_and_the_oldest(tmp_path):
    runs_of(tmp_path, ("good", 100.0, 200.0))
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "run.json").write_text("{")
    assert directory.kept(tmp_path) == {
        tmp_path / "good": {"started_epoch_s": 100.0},
        tmp_path / "broken": {},
    }
    assert directory.newest(tmp_path) == tmp_path / "good"
    assert directory.newest(tmp_path / "nowhere") is None


def test_what_may_not_be_entered_holds_no_run(tmp_path, monkeypatch):
    """Made by root in a container, as a rule; root itself may enter everything."""
    (tmp_path / "theirs").mkdir()
    (tmp_path / "mine").mkdir()
    directory.write_json(tmp_path / "mine" / directory.RUN, {})

    def refuse(path, *more, **options):
        raise PermissionError(13, "Permission denied", str(path))

    real = directory.Path.is_file
    monkeypatch.setattr(
        directory.Path, "is_file", lambda path: refuse(path) if "theirs" in path.parts else real(path)
    )
    assert list(directory.kept(tmp_path)) == [tmp_path / "mine"]
    monkeypatch.setattr(directory.Path, "iterdir", refuse)
    assert directory.kept(tmp_path) == {}
    assert directory.newest(tmp_path) is None


def test_git_takes_in_nothing_of_a_projects_runs(tmp_path):
    directory.create(tmp_path / ".perfdoctor" / "runs", "train")
    directory.create(tmp_path / ".perfdoctor" / "runs", "train")
    assert (tmp_path / ".perfdoctor" / ".gitignore").read_text() == "*\n"
    directory.create(tmp_path / "kept", "train")
    assert not (tmp_path / ".gitignore").exists()


def test_a_draft_for_which_there_is_no_room_gives_the_room_back(tmp_path, monkeypatch):
    (tmp_path / "trace.rank0.0.json").write_text("{}")

    def full(*given):
        raise OSError(28, "disk full")

    monkeypatch.setattr("shutil.copyfileobj", full)
    with pytest.raises(OSError, match="disk full"):
        directory.pack_traces(tmp_path)
    assert [entry.name for entry in tmp_path.iterdir()] == ["trace.rank0.0.json"]
