from __future__ import annotations

import json
import os
import sys

import pytest

from perfdoctor.cli import retry
from perfdoctor.errors import PerfdoctorError
from perfdoctor.redaction import redact
from tests.support.jobs import write_job

LATER_S = 4e9  # in 2096: no file here is newer


@pytest.fixture
def script(folder):
    (folder / "train.py").write_text("pass\n")
    return folder


def run_of(saved, folder, **fields):
    return saved(
        **{"command": [sys.executable, "train.py"], "cwd": str(folder), "started_epoch_s": LATER_S, **fields}
    )


def test_the_newest_runs_command_is_run_again_in_its_folder(script, saved):
    run_of(saved, script)
    newest = run_of(saved, script, name="20260303-030405-train", started_epoch_s=LATER_S + 1)
    found = retry.last(None)
    assert found == retry.Again((sys.executable, "train.py"), str(script), newest)


def test_the_run_may_be_named(script, saved):
    path = run_of(saved, script)
    run_of(saved, script, name="20260303-030405-train", started_epoch_s=LATER_S + 1)
    assert retry.last(path.name).run == path


def test_the_newest_run_needs_no_name_where_it_is_read_at_once(script, saved):
    older = run_of(saved, script)
    newest = run_of(saved, script, name="20260303-030405-train", started_epoch_s=LATER_S + 1)
    assert retry.option(str(newest)) == ""
    assert retry.option(str(newest), later=True) == " --run 20260303-030405-train"
    assert retry.option(str(older)) == f" --run {older.name}"
    assert retry.last(older.name).run == older


def test_a_run_in_another_folder_is_named_by_a_path_that_the_reader_can_type(script, saved, monkeypatch):
    run_of(saved, script)
    apart = run_of(saved, script, name="a run", parent="apart")
    monkeypatch.chdir(script)
    assert retry.option(str(apart)) == " --run 'apart/a run'"
    assert retry.option("apart/a run", later=True) == f" --run '{apart}'"
    monkeypatch.chdir(apart)
    assert retry.option(".", later=True) == f" --run '{apart}'"


def test_a_run_in_another_folder_is_found_by_its_path(folder, saved, monkeypatch):
    there = folder / "there"
    there.mkdir()
    (there / "train.py").write_text("pass\n")
    (there / "start.sh").write_text("#!/bin/sh\n")
    (there / "start.sh").chmod(0o755)
    path = run_of(saved, there, command=["./start.sh", "train.py"])
    assert retry.last(str(path)).cwd == str(there)


def test_a_script_that_changed_since_is_told(script, saved):
    path = run_of(saved, script, started_epoch_s=1.0)
    found = retry.last(None)
    assert found.told == (f"train.py has changed since run {path.name}: its findings may no longer hold",)
    assert found.run == path


@pytest.mark.parametrize(
    "command", [["python", "-m", "pkg.train"], ["torchrun", "pkg/train.py"]], ids=["module", "launcher"]
)
def test_the_script_behind_a_module_or_a_launcher_is_looked_at_too(script, saved, monkeypatch, command):
    (script / "pkg").mkdir()
    (script / "pkg" / "train.py").write_text("pass\n")
    (script / "torchrun").write_text("#!/bin/sh\n")
    (script / "torchrun").chmod(0o755)
    monkeypatch.setenv("PATH", str(script), prepend=os.pathsep)
    run_of(saved, script, command=command, started_epoch_s=1.0)
    (told,) = retry.last(None).told
    assert told.startswith(f"pkg{os.sep}train.py has changed")


def test_nothing_is_predicted_from_a_run_that_had_tweaks_on(script, saved):
    path = run_of(saved, script, tweaks={"workers": {"value": 4}})
    found = retry.last(None)
    assert (found.run, found.told) == (
        None,
        (f"run {path.name} had tweaks on: no gains are predicted from it",),
    )


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"command": [sys.executable, "gone.py"]}, "the script of run {} no longer exists: gone.py"),
        ({"command": ["./gone.sh"]}, "/gone.sh: there is no such file"),
        ({"command": [sys.executable, "-"]}, "the script of run {} came from stdin and is not kept"),
        (
            {"command": [sys.executable, "train.py", "--api-key", redact.REDACTED]},
            "the command of run {} contains what",
        ),
        ({"command": None}, "run {} does not record its command"),
        ({"command": []}, "run {} does not record its command"),
        ({"command": [1]}, "run {} does not record its command"),
        ({"cwd": "/not/here"}, "the working directory of run {} no longer exists: /not/here"),
        ({"cwd": None}, "the working directory of run {} no longer exists: None"),
    ],
)
def test_a_command_that_cannot_be_run_again_is_said(script, saved, fields, sentence):
    path = run_of(saved, script, **fields)
    with pytest.raises(PerfdoctorError) as caught:
        retry.last(None)
    assert sentence.format(path.name) in str(caught.value)
    assert caught.value.exit_code == 2


def test_without_a_run_both_ways_out_are_named(folder):
    with pytest.raises(PerfdoctorError, match="there is no command to try: no runs in") as caught:
        retry.last(None)
    assert caught.value.hint == f"watch a script first: perfdoctor run train.py; or {retry.GIVE_IT}"


def test_a_command_given_has_the_newest_runs_predictions_if_it_is_the_same(script, saved):
    path = run_of(saved, script)
    words = (sys.executable, "train.py")
    assert retry.given(words, None) == retry.Again(words, None, path)


@pytest.mark.parametrize("kept", ["Zk81", redact.REDACTED])
def test_a_command_given_is_the_same_whether_its_secrets_were_kept_or_not(script, saved, kept):
    path = run_of(saved, script, command=[sys.executable, "train.py", "--api-key", kept])
    words = (sys.executable, "train.py", "--api-key", "Zk81")
    assert retry.given(words, None) == retry.Again(words, None, path)


def test_a_run_that_kept_its_arguments_is_tried_with_them(script, saved):
    run_of(saved, script, command=[sys.executable, "train.py", "--api-key", "Zk81"])
    assert retry.last(None).command[-1] == "Zk81"


def test_a_command_given_finds_its_run_behind_newer_ones_of_others(script, saved):
    path = run_of(saved, script)
    newer = {"name": "20260303-030405-other", "started_epoch_s": LATER_S + 1}
    run_of(saved, script, command=[sys.executable, "other.py"], **newer)
    words = (sys.executable, "train.py")
    assert retry.given(words, None).run == path


def test_a_command_given_is_the_same_however_its_program_is_typed(script, saved, monkeypatch):
    monkeypatch.setenv("PATH", os.path.dirname(sys.executable), prepend=os.pathsep)
    path = run_of(saved, script)
    assert retry.given((os.path.basename(sys.executable), "train.py"), None).run == path


@pytest.mark.parametrize("fields", [{"command": [sys.executable, "train.py", "-x"]}, {"cwd": "/"}])
def test_a_command_given_has_none_of_another_command_or_folder(script, saved, fields):
    run_of(saved, script, **fields)
    words = (sys.executable, "train.py")
    assert retry.given(words, None) == retry.Again(words)


def test_a_command_given_may_name_the_run_to_expect_the_same_of(script, saved):
    path = run_of(saved, script, command=[sys.executable, "train.py", "--lr", "0.1"])
    assert retry.given(("train.py", "--lr", "0.2"), path.name).run == path


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("-",), "a script from stdin can be read only once"),
        (("nothing-of-the-kind",), "nothing-of-the-kind: command not found"),
        (("train.ipynb",), "a notebook is not a script"),
    ],
)
def test_a_command_given_that_cannot_be_tried_is_said(script, words, sentence):
    with pytest.raises(PerfdoctorError) as caught:
        retry.given(words, None)
    assert (str(caught.value), caught.value.exit_code) == (sentence, 2)


def test_the_command_of_one_node_of_several_is_not_run_alone(script):
    write_job(script / ".perfdoctor" / "runs", ranks=4, nodes=2, steps=5)
    for node in ("node0", "node1"):
        renamed(script, node)
    with pytest.raises(PerfdoctorError, match="was one node of a job of 4 ranks") as caught:
        retry.last("node1")
    assert "torchrun --nproc-per-node 2 train.py" in caught.value.hint


def test_nothing_is_predicted_from_one_task_of_a_job(script):
    write_job(script / ".perfdoctor" / "runs", ranks=3, steps=5, per_task=True)
    renamed(script, "task1")
    found = retry.last("task1")
    assert found.run is None
    assert found.told == ("run task1 was part of a job of 3 ranks: no gains are predicted from it",)


def test_a_job_on_one_node_is_run_again_with_its_launcher(script):
    write_job(script / ".perfdoctor" / "runs", ranks=2, steps=5)
    path = renamed(script, "node0")
    assert retry.last(None) == retry.Again((sys.executable, "train.py"), str(script), path)


def renamed(script, name):
    """The run with a command that is there."""
    path = script / ".perfdoctor" / "runs" / name
    run = json.loads((path / "run.json").read_text())
    more = {"command": [sys.executable, "train.py"], "cwd": str(script), "started_epoch_s": LATER_S}
    (path / "run.json").write_text(json.dumps(run | more))
    return path
