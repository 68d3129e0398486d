from __future__ import annotations

import sys
import zipfile

import pytest

from perfdoctor import cli, own_failures, reporting
from perfdoctor.cli import run as run_verb
from perfdoctor.watch import launch

pytestmark = pytest.mark.process


@pytest.fixture
def broken(monkeypatch):
    """No run can be judged, for a defect of ours."""

    def judge(*given, **options):
        raise KeyError("columns")

    monkeypatch.delenv(own_failures.STRICT)
    monkeypatch.setattr(reporting, "judge", judge)


@pytest.fixture
def call(monkeypatch, capsys):
    """Calls `perfdoctor` in this process: its exit status, and what it wrote on both streams."""

    def call(*words: str):
        monkeypatch.setattr(sys, "argv", ["perfdoctor", *words])
        with pytest.raises(SystemExit) as end:
            cli.main()
        return end.value.code or 0, capsys.readouterr()

    return call


def test_a_defect_is_one_sentence_with_what_to_type_next_and_no_traceback(saved, broken, call):
    saved()
    status, written = call("report")
    assert status == cli.DEFECT == 70
    assert written.out == ""
    first, second = written.err.splitlines()
    assert first.startswith("perfdoctor: this is a defect of perfdoctor: KeyError: 'columns' (perfdoctor/")
    assert second == "  to report it: perfdoctor bug"


def test_the_bundle_holds_the_last_defect_and_those_of_the_run(saved, broken, call, folder):
    saved()
    call("report")
    status, written = call("bug", "20260102-030405-train", "--to", "bug.zip")
    assert (status, written.out) == (0, "bug.zip\n")
    assert "perfdoctor itself failed at the report: KeyError: 'columns'" in written.err
    assert "wrote 4 files" in written.err
    assert "look at it before you send it: unzip -p bug.zip | less" in written.err
    with zipfile.ZipFile(folder / "bug.zip") as bundle:
        assert bundle.namelist() == [
            "about.json",
            "failure.txt",
            "failures-of-the-report.txt",
            "run/run.json",
        ]
        assert b'raise KeyError("columns")' in bundle.read("failure.txt")


def test_a_bundle_without_a_run_is_named_by_the_time(call, folder):
    status, written = call("bug")
    assert status == 0
    assert (folder / written.out.strip()).is_file()
    assert written.out.startswith("perfdoctor-bug-20")


def test_where_it_cannot_be_written_is_said(call, folder):
    (folder / "bug.zip").write_text("mine")
    status, written = call("bug", "--to", "bug.zip")
    assert status == 2
    assert written.err.splitlines() == [
        "perfdoctor: bug.zip cannot be written: File exists",
        "  name another place: perfdoctor bug --to FILE",
    ]


@pytest.mark.shows("own-failure")
def test_a_run_ends_as_the_command_did_whatever_fails_in_its_report(monkeypatch, capsys, folder):
    def fails(*given):
        raise KeyError("columns")

    class Mirrored(Exception):
        pass

    def mirror(outcome):
        raise Mirrored(outcome.status)

    monkeypatch.delenv(own_failures.STRICT)
    monkeypatch.setattr(run_verb, "_report", fails)
    monkeypatch.setattr(launch, "mirror", mirror)
    with pytest.raises(Mirrored, match="7"):
        run_verb._end(launch.CommandExit(folder / "a-run", 7), None, False, 5, None)
    assert f"to report it: perfdoctor bug {folder / 'a-run'}" in capsys.readouterr().err
