from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys

import pytest

from perfdoctor.cli.run import marked
from tests.support.paths import ROOT

pytestmark = pytest.mark.process


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["-m", "pkg.train", "--steps", "3"], ["--", "-m", "pkg.train", "--steps", "3"]),
        (["--lines", "9", "-m", "pkg.train"], ["--lines", "9", "--", "-m", "pkg.train"]),
        (["-q", "--steps", "3", "-m", "pkg"], ["-q", "--steps", "3", "--", "-m", "pkg"]),
        (["--out=d", "-mpkg"], ["--out=d", "--", "-mpkg"]),
        (["--steps", "-m", "x"], ["--steps", "-m", "x"]),
        (["--with", "--amp", "-m", "x"], ["--with", "--amp", "--", "-m", "x"]),
        (["train.py", "-m", "x"], ["train.py", "-m", "x"]),
        (["--", "python", "-m", "x"], ["--", "python", "-m", "x"]),
        (["-", "-m", "x"], ["-", "-m", "x"]),
        ([], []),
    ],
)
def test_the_command_begins_at_dash_m_only_where_options_of_ours_could_stand(words, expected):
    assert marked(words) == expected


SHOW = "import sys\nprint(__name__, sys.argv[1:])\nsys.stderr.write('to stderr\\n')\nsys.exit(3)\n"


def test_options_end_at_the_first_word_of_the_command(folder, perfdoctor):
    (folder / "train.py").write_text(SHOW)
    shown = perfdoctor("run", "-q", "train.py", "-q", "--steps", "7", "--help")
    assert shown.stdout == "__main__ ['-q', '--steps', '7', '--help']\n"
    assert shown.returncode == 3


def test_a_module_is_a_command_of_its_own(folder, perfdoctor):
    (folder / "pkg").mkdir()
    (folder / "pkg" / "train.py").write_text(SHOW)
    shown = perfdoctor("run", "-q", "-m", "pkg.train", "a", "-b")
    assert shown.stdout == "__main__ ['a', '-b']\n"
    assert shown.returncode == 3


def test_a_script_from_stdin_is_run(perfdoctor):
    shown = perfdoctor("run", "-q", "-", "a", input=SHOW)
    assert shown.stdout == "__main__ ['a']\n"
    assert shown.returncode == 3


@pytest.mark.shows("streams")
def test_what_perfdoctor_says_goes_to_stderr_after_the_scripts_own_words(folder, perfdoctor):
    (folder / "train.py").write_text(SHOW)
    shown = perfdoctor("run", "train.py")
    assert shown.stderr.startswith("to stderr\n")
    assert "No verdict" in shown.stderr
    assert "Kept in " in shown.stderr


@pytest.mark.shows("streams")
def test_quiet_says_one_line(folder, perfdoctor):
    (folder / "train.py").write_text("print('trained')\n")
    shown = perfdoctor("run", "-q", "train.py")
    assert shown.stdout == "trained\n"
    assert len(shown.stderr.splitlines()) == 1
    assert shown.stderr.startswith("perfdoctor: ")


def test_html_is_written_at_the_end_beside_what_is_said(folder, perfdoctor):
    (folder / "train.py").write_text("raise SystemExit(3)\n")
    shown = perfdoctor("run", "-q", "--html", "report.html", "train.py")
    assert shown.returncode == 3
    assert "the report is in report.html" in shown.stderr
    assert "No step was seen" in (folder / "report.html").read_text()


def test_html_that_has_no_place_is_said_before_the_command_starts(folder, perfdoctor):
    (folder / "train.py").write_text("open('started', 'w')")
    shown = perfdoctor("run", "--html", "missing/report.html", "train.py")
    assert shown.returncode == 2
    assert not (folder / "started").exists()


def test_the_run_and_its_report_are_kept_in_the_folder_asked_for(folder, perfdoctor):
    (folder / "train.py").write_text("pass\n")
    perfdoctor("run", "--out", "kept", "train.py")
    (run,) = (folder / "kept").iterdir()
    assert json.loads((run / "report.json").read_text())["schema"] == "perfdoctor.report/1"
    assert not (folder / ".perfdoctor").exists()


@pytest.mark.parametrize(
    ("words", "profiler", "share"),
    [([], True, 0.01), (["--profiler-share", "0.2"], True, 0.2), (["--no-profiler"], False, 0.01)],
)
def test_the_probe_is_told_what_windows_may_cost(folder, perfdoctor, words, profiler, share):
    (folder / "train.py").write_text("pass")
    assert perfdoctor("run", "--out", "kept", *words, "train.py").returncode == 0
    (run,) = (folder / "kept").iterdir()
    config = json.loads((run / "config.json").read_text())
    assert (config["profiler"], config["profiler_share"]) == (profiler, share)


def test_a_script_is_not_ended_with_a_watch_that_has_no_end(folder, perfdoctor):
    (folder / "train.py").write_text("open('started', 'w')")
    shown = perfdoctor("run", "--stop", "train.py")
    assert shown.returncode == 2
    assert "perfdoctor run --steps 200 --stop" in shown.stderr
    assert not (folder / "started").exists()


def test_tweaks_are_handed_to_the_probe_as_a_trial_would(folder, perfdoctor):
    (folder / "train.py").write_text("pass")
    shown = perfdoctor("run", "--out", "kept", "--with", "--workers 4 --persistent-workers", "train.py")
    assert shown.returncode == 0, shown.stderr
    (run,) = (folder / "kept").iterdir()
    assert json.loads((run / "config.json").read_text())["tweaks"] == {
        "workers": {"value": 4},
        "persistent_workers": {},
    }


@pytest.mark.parametrize(
    ("typed", "sentence"),
    [
        ("--wokers 4", "no tweak called --wokers"),
        ("--workers 999", "--workers 999: this value is not allowed"),
        ("--workers auto", "--workers auto: only a trial can choose the value"),
        ("--workers '4", "--with --workers '4: no closing quotation"),
    ],
)
def test_tweaks_that_cannot_be_meant_start_nothing(folder, perfdoctor, typed, sentence):
    (folder / "train.py").write_text("open('started', 'w')")
    shown = perfdoctor("run", "--with", typed, "train.py")
    assert shown.returncode == 2
    assert shown.stderr.startswith(f"perfdoctor: {sentence}\n")
    assert not (folder / "started").exists()


@pytest.mark.parametrize("words", [["--amp"], ["--workers", "4"], ["--workers=4"]])
def test_a_tweak_among_the_options_is_told_its_place(folder, perfdoctor, words):
    shown = perfdoctor("run", *words, "train.py")
    assert shown.returncode == 2
    assert "is a tweak, and no option" in shown.stderr
    assert "perfdoctor run --with '--workers 4 --amp' train.py" in shown.stderr


@pytest.mark.parametrize(
    ("typed", "hint"),
    [
        ("--workers auto", "run one: perfdoctor try --workers auto -- train.py 3"),
        ("--amp=1", "write it like: perfdoctor run --with --amp train.py 3"),
        (
            "--workers",
            '--workers takes a whole number from 0 to 512 or auto; in quotes: --with "--workers N|auto"',
        ),
        ("4", "--with takes tweaks only: perfdoctor run --with '--workers 4' train.py 3"),
    ],
)
def test_what_to_type_instead_is_for_the_command_typed(perfdoctor, typed, hint):
    assert perfdoctor("run", "--with", typed, "train.py", "3").stderr.splitlines()[1].strip() == hint


def test_a_share_is_between_nought_and_one(perfdoctor):
    assert perfdoctor("run", "--profiler-share", "2", "train.py").returncode == 2


@pytest.mark.shows("exit-status")
def test_death_by_signal_is_passed_on(perfdoctor):
    code = "import os, signal; os.kill(os.getpid(), signal.SIGTERM)"
    shown = perfdoctor("run", "-q", "--", sys.executable, "-c", code)
    assert shown.returncode == -signal.SIGTERM


def test_a_command_that_is_not_there_gets_the_shells_status(perfdoctor):
    shown = perfdoctor("run", "no-such-command-anywhere")
    assert shown.returncode == 127
    assert shown.stderr.startswith("perfdoctor: no-such-command-anywhere: command not found\n")


@pytest.mark.shows("exit-status", "own-failure")
def test_a_report_that_fails_leaves_the_scripts_status_alone(folder, perfdoctor):
    """A fault of ours is shown as what it is, and the caller still gets what the command said."""
    (folder / "broken").mkdir()
    (folder / "broken" / "sitecustomize.py").write_text(
        "import sys\nsys.modules['perfdoctor.diagnosis.report'] = None\n"
    )
    (folder / "train.py").write_text("raise SystemExit(5)\n")
    shown = perfdoctor("run", "train.py", env=os.environ | {"PYTHONPATH": str(folder / "broken")})
    assert shown.returncode == 5
    assert "perfdoctor.diagnosis.report" in shown.stderr


# Ctrl-C while something is done after the script's end: what is slow by nature is made slow here.
SLOWLY = """
import sys, time
sys.path.insert(0, {root!r})
from perfdoctor.cli import main
from {module} import {name}

def slowly(*given, **named):
    sys.stderr.write("at work\\n")
    sys.stderr.flush()
    time.sleep(30)

{owner}.{function} = slowly
main()
"""


@pytest.mark.shows("interrupt-twice")
@pytest.mark.parametrize(
    ("place", "status"),
    [
        ("perfdoctor.reporting:judge", 0),
        ("perfdoctor.runs.directory:pack_traces", 0),
        ("perfdoctor.watch.failures:first", 3),
    ],
)
def test_ctrl_c_after_the_scripts_end_says_where_the_run_is_and_how_to_show_it(folder, place, status):
    (folder / "train.py").write_text(f"raise SystemExit({status})\n")
    module, function = place.split(":")
    package, _, name = module.rpartition(".")
    code = SLOWLY.format(root=str(ROOT), module=package, name=name, owner=name, function=function)
    process = subprocess.Popen(
        [sys.executable, "-c", code, "run", "train.py"],
        cwd=folder,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    said = ""
    while "at work" not in said:
        line = process.stderr.readline()
        assert line, said
        said += line
    process.send_signal(signal.SIGINT)
    said = process.stderr.read()
    assert process.wait(20) == 130
    (run,) = (folder / ".perfdoctor" / "runs").iterdir()
    assert said.splitlines() == [
        f"perfdoctor: interrupted before its report was made; the run is kept in {run}",
        f"  show it: perfdoctor report {run}",
    ]
    assert json.loads((run / "run.json").read_text())["exit_code"] == status


TRAINS = """
import torch

model = torch.nn.Linear(8, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for _ in range(60):
    optimizer.zero_grad()
    model(torch.ones(4, 8)).mean().backward()
    optimizer.step()
print("trained")
"""


@pytest.mark.shows("disk-full")
@pytest.mark.slow
def test_a_disk_without_room_for_the_steps_is_told_instead_of_no_step(folder, perfdoctor):
    pytest.importorskip("torch")
    (folder / "train.py").write_text(TRAINS)
    (folder / "tiny").mkdir()
    mount = ("mount", "-t", "tmpfs", "-o", "size=100k", "tmpfs", str(folder / "tiny"))
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("nothing may be mounted here")
    try:
        shown = perfdoctor("run", "--out", "tiny", "train.py")
        (run,) = (folder / "tiny").iterdir()
        record = json.loads((run / "run.json").read_text())
    finally:
        subprocess.run(("umount", "-l", str(folder / "tiny")), check=True)
    assert (shown.returncode, shown.stdout) == (0, "trained\n")
    said = " ".join(shown.stderr.split())
    assert "no step could be recorded: the disk that holds the run was full" in said
    assert re.search(r"was full at \d\d:\d\d:\d\d: whatever the script trained from then on is missing", said)
    assert "header" not in said
    assert record["outcome"] == "ok"  # there was room left for how it ended


def test_a_trial_that_is_to_choose_a_value_is_one_of_the_command_that_was_typed(folder, perfdoctor):
    shown = perfdoctor("run", "--with", "--workers auto", "my train.py", "--lr", "1")
    assert shown.returncode == 2
    assert "run one: perfdoctor try --workers auto -- 'my train.py' --lr 1" in shown.stderr
