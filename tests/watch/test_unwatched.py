from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from perfdoctor.watch import unwatched
from tests.support.launching import environment

pytestmark = pytest.mark.process

BOOT, STARTED = (
    '{"event":"boot","pid":7,"python":"3.11.1"}\n',
    '{"event":"started","pid":7,"python":"3.12.1"}\n',
)
UNSEEN = unwatched.UnwatchedProcess(("python", "-I", "train.py"), "because", "do this", imported_torch=False)
TRAINED_UNSEEN = unwatched.UnwatchedProcess(("python", "train.py"), "because", "do this", imported_torch=True)


def notes(run: Path, *command: str, found: tuple[unwatched.UnwatchedProcess, ...] = ()) -> list[str]:
    return unwatched.notes(run, command, found)


def test_nothing_is_said_where_torch_was_watched(tmp_path: Path) -> None:
    (tmp_path / "boot.jsonl").write_text(BOOT)
    assert notes(tmp_path, "python", "train.py") == []
    assert notes(tmp_path, "python", "train.py", found=(UNSEEN,)) == []  # some tool, not the training


def test_a_training_that_goes_unwatched_beside_a_watched_one_is_said(tmp_path: Path) -> None:
    (tmp_path / "boot.jsonl").write_text(BOOT)
    (note,) = notes(tmp_path, "bash", "train.sh", found=(TRAINED_UNSEEN, TRAINED_UNSEEN, UNSEEN))
    assert note == "`python train.py` was not watched: because; do this"


@pytest.mark.shows("no-torch", "kept-out")
def test_never_importing_torch_is_told_apart_from_never_being_reached(tmp_path: Path) -> None:
    (nothing,) = notes(tmp_path, "true")
    assert "no Python process could be watched" in nothing
    (tmp_path / "started.jsonl").write_text(STARTED)
    assert notes(tmp_path, "python", "x.py") == ["the command ended before it imported torch"]
    (note,) = notes(tmp_path, "bash", "train.sh", found=(UNSEEN,))
    assert "`python -I train.py` was not watched" in note


@pytest.mark.shows("kept-out")
@pytest.mark.parametrize(
    ("command", "why"),
    [
        (["python", "-I", "train.py"], "option -I"),
        (["python3.11", "-uE", "train.py"], "option -E"),
        (["/usr/bin/python", "-W", "ignore", "-S", "train.py"], "option -S"),
        (["python", "-Werror::UserWarning", "-Ximporttime", "-I", "train.py"], "option -I"),
        (["env", "-i", "python", "train.py"], "`env -i` empties"),
        (["bash", "-c", "python -I train.py"], "option -I"),
        (["bash", "-c", "cd src && PYTHONPATH=. python train.py"], "PYTHONPATH is replaced"),
        (["python", "train.py", "-I"], "the command runs no Python"),
        (["bash", "-c", "PYTHONPATH=src:$PYTHONPATH python train.py"], "the command runs no Python"),
    ],
)
def test_the_commands_words_are_searched_for_the_reason(tmp_path: Path, command: list[str], why: str) -> None:
    (note,) = notes(tmp_path, *command)
    assert why in note


def test_a_shell_script_is_searched_for_the_line(tmp_path: Path) -> None:
    script = tmp_path / "train.sh"
    script.write_text("#!/bin/bash\n# PYTHONPATH=here\nexport PYTHONPATH=src\npython train.py\n")
    (note,) = notes(tmp_path, "bash", str(script))
    assert f"{script}:3: PYTHONPATH is replaced" in note
    assert "export PYTHONPATH=src:$PYTHONPATH" in note


def test_secrets_do_not_get_into_a_note() -> None:
    found = unwatched.UnwatchedProcess(
        ("python", "-I", "t.py", "--password", "CANARY"), "because", "do this", imported_torch=True
    )
    assert "CANARY" not in unwatched.note(found)


def test_the_version_is_that_of_the_interpreter_that_imported_torch(tmp_path: Path) -> None:
    assert unwatched.python_version(tmp_path) is None
    (tmp_path / "started.jsonl").write_text(STARTED)
    assert unwatched.python_version(tmp_path) == "3.12.1"
    (tmp_path / "boot.jsonl").write_text("half a li\n" + BOOT)
    assert unwatched.python_version(tmp_path) == "3.11.1"


SLEEPS = "import sys, time\nprint('ready', flush=True)\ntime.sleep(30)"


@contextmanager
def running(
    *words: str, env: dict[str, str], rest: tuple[str, ...] = ("-c", SLEEPS)
) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen([*words, *rest], env=env, stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    try:
        yield process
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


@pytest.mark.shows("kept-out")
def test_running_interpreters_are_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(unwatched, "GRACE_S", 0.0)
    reached = environment(PYTHONPATH=unwatched.INJECT, PERFDOCTOR_RUN=str(tmp_path))
    cases = (
        ((sys.executable,), reached, None),
        ((sys.executable, "-I"), reached, "option -I"),
        (
            (sys.executable,),
            environment(PYTHONPATH="src", PERFDOCTOR_RUN=str(tmp_path)),
            "PYTHONPATH was replaced",
        ),
        ((sys.executable,), environment(), "its environment was emptied"),
        ((sys.executable,), environment(PYTHONPATH=unwatched.INJECT), "its environment was emptied"),
        ((sys.executable,), environment(PYTHONPATH=str(tmp_path / "probe")), None),
    )
    for words, env, why in cases:
        with running(*words, env=env) as process:
            time.sleep(0.05)
            found = unwatched.look(process.pid, tmp_path)
        if why is None:
            assert found == {}
        else:
            assert why in found[process.pid].why
            assert not found[process.pid].imported_torch
    assert len((tmp_path / "started.jsonl").read_text().splitlines()) == 1


def test_what_torch_starts_to_compile_is_no_training_that_goes_unwatched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(unwatched, "GRACE_S", 0.0)
    worker = tmp_path / unwatched.COMPILER
    worker.parent.mkdir(parents=True)
    worker.write_text(SLEEPS)
    env = environment(PYTHONPATH="src", PERFDOCTOR_RUN=str(tmp_path))
    with running(sys.executable, env=env, rest=(str(worker), "--workers=2")) as process:
        time.sleep(0.05)
        assert unwatched.look(process.pid, tmp_path) == {}


def test_an_interpreter_of_another_user_is_told_by_its_command_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running(sys.executable, env=environment()) as process:
        monkeypatch.setattr(unwatched.os, "geteuid", lambda: 4_000_000_000)
        found = unwatched.look(process.pid, tmp_path)
    assert "another user" in found[process.pid].why
    assert not found[process.pid].imported_torch


def test_a_process_that_is_gone_is_no_trouble(tmp_path: Path) -> None:
    process = subprocess.Popen(["true"])
    process.wait()
    assert unwatched.look(process.pid, tmp_path) == {}


def test_an_interpreter_that_has_just_started_is_given_time(tmp_path: Path) -> None:
    with running(sys.executable, "-I", env=environment()) as process:
        assert unwatched.look(process.pid, tmp_path) == {}


def test_lines_that_are_no_objects_are_passed_over(tmp_path: Path) -> None:
    (tmp_path / "boot.jsonl").write_text(
        f"[1]\nnull\n\x00\n{json.dumps({'event': 'boot', 'python': '3.13.0'})}"
    )
    assert notes(tmp_path, "python") == []
    assert unwatched.python_version(tmp_path) == "3.13.0"
