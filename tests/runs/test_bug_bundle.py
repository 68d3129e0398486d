from __future__ import annotations

import json
import platform
import zipfile
from pathlib import Path

import pytest

from perfdoctor.model.own_failure import OwnFailure
from perfdoctor.runs import bug_bundle
from perfdoctor.runs.raw import read_now
from perfdoctor.wire import files
from perfdoctor.wire.collective_rows import ALL_REDUCE, NOW, NOW_BYTE
from perfdoctor.wire.rows import HEADER_BYTES
from perfdoctor.wire.step_rows import STEPS
from tests.support.jobs import write_job

pytestmark = pytest.mark.process

FAILURE = OwnFailure("the tip b", "KeyError: 'x'", "Traceback\n  in /home/ada/train.py\nKeyError: 'x'")


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name, value in {"HOME": "/home/ada", "XDG_STATE_HOME": str(tmp_path / "state")}.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(platform, "node", lambda: "gpu-box-7")
    return tmp_path


def bundled(file: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(file) as opened:
        return {name: opened.read(name) for name in opened.namelist()}


def test_without_a_run_it_tells_of_the_installation(home: Path) -> None:
    assert bug_bundle.write(home / "bug.zip", None, ()) == ["about.json"]
    about = json.loads(bundled(home / "bug.zip")["about.json"])
    assert about["versions"]["python"] == platform.python_version()
    assert {"numpy", "rich", "typer"} <= set(about["versions"])


def test_what_a_run_recorded_is_there_but_for_stacks_traces_and_what_was_printed(home: Path) -> None:
    run = home / "run"
    run.mkdir()
    kept = ("run.json", "events.rank0.jsonl", "probe.log", "report.json")
    left_out = ("stacks.rank0.txt", "trace.rank0.0.json.gz", "trace.rank0.1.json", "base.log", "reserve")
    for name in (*kept, *left_out):
        (run / name).write_text("{}")
    (run / "diverted").mkdir()
    names = bug_bundle.write(home / "bug.zip", run, (FAILURE,))
    assert sorted(names) == sorted(
        ["about.json", "failures-of-the-report.txt", *(f"run/{name}" for name in kept)]
    )


def test_secrets_the_home_and_the_name_of_the_host_are_replaced(home: Path) -> None:
    run = home / "run"
    run.mkdir()
    (run / "run.json").write_text(
        '{"cwd": "/home/ada/x", "node": "gpu-box-7", "of": "/home/adam", "token": "abc3"}'
    )
    bug_bundle.keep(["run", "train.py", "--password", "hunter2"], FAILURE)
    bug_bundle.write(home / "bug.zip", run, ())
    found = bundled(home / "bug.zip")
    assert json.loads(found["run/run.json"]) == {
        "cwd": "~/x", "node": "<host>", "of": "/home/adam", "token": "<redacted>"
    }  # fmt: skip
    assert found["failure.txt"].decode().splitlines()[1:] == [
        "run train.py --password <redacted>",
        "Traceback",
        "  in ~/train.py",
        "KeyError: 'x'",
    ]
    assert bug_bundle.last_failure().stat().st_mode & 0o777 == 0o600


def test_no_file_of_a_bundle_is_named_after_the_host(home: Path) -> None:
    run = home / "run"
    run.mkdir()
    (run / "windows.gpu-box-7.bin").write_bytes(bytes(64))
    assert bug_bundle.write(home / "bug.zip", run, ()) == ["about.json", "run/windows.host.bin"]


def test_rows_stay_rows_and_long_files_are_cut(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = home / "run"
    run.mkdir()
    files.MappedRows(str(run / "steps.rank0.bin"), STEPS, 0)
    monkeypatch.setattr(bug_bundle, "MOST_BYTES", 5000)
    bug_bundle.write(home / "bug.zip", run, ())
    content = bundled(home / "bug.zip")["run/steps.rank0.bin"]
    assert len(content) == 5000
    assert content[HEADER_BYTES:] == (run / "steps.rank0.bin").read_bytes()[HEADER_BYTES:5000]
    assert json.loads(content[:HEADER_BYTES])["kind"] == STEPS.kind


def test_a_bundle_tells_which_collective_a_rank_was_in(home: Path) -> None:
    (run,) = write_job(home, ranks=1, steps=5, inside=(0,)).folders
    file = run / "collectives.rank0.bin"
    with open(file, "r+b") as rows:
        rows.seek(NOW_BYTE)
        rows.write(NOW.pack(0x91, 5, 0xE9, 3, 0, ALL_REDUCE, 1))  # bytes that are no text
    now = read_now(file)
    assert now is not None
    bug_bundle.write(home / "bug.zip", run, ())
    file.write_bytes(bundled(home / "bug.zip")["run/collectives.rank0.bin"])
    assert read_now(file) == now


def test_a_bundle_replaces_no_file_and_half_of_one_is_not_left(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = home / "bug.zip"
    file.write_text("mine")
    with pytest.raises(FileExistsError):
        bug_bundle.write(file, None, ())
    assert file.read_text() == "mine"

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(zipfile.ZipFile, "writestr", full)
    with pytest.raises(OSError, match="No space"):
        bug_bundle.write(home / "other.zip", None, ())
    assert not (home / "other.zip").exists()
