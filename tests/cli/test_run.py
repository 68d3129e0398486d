from __future__ import annotations

import json
import os
import signal
import sys

import pytest

from perfdoctor.cli.run import marked

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


def test_what_perfdoctor_says_goes_to_stderr_after_the_scripts_own_words(folder, perfdoctor):
    (folder / "train.py").write_text(SHOW)
    shown = perfdoctor("run", "train.py")
    assert shown.stderr.startswith("to stderr\n")
    assert "No verdict" in shown.stderr
    assert "Kept in " in shown.stderr


def test_quiet_says_one_line(folder, perfdoctor):
    (folder / "train.py").write_text("print('trained')\n")
    shown = perfdoctor("run", "-q", "train.py")
    assert shown.stdout == "trained\n"
    assert len(shown.stderr.splitlines()) == 1
    assert shown.stderr.startswith("perfdoctor: ")


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


def test_a_share_is_between_nought_and_one(perfdoctor):
    assert perfdoctor("run", "--profiler-share", "2", "train.py").returncode == 2


def test_death_by_signal_is_passed_on(perfdoctor):
    code = "import os, signal; os.kill(os.getpid(), signal.SIGTERM)"
    shown = perfdoctor("run", "-q", "--", sys.executable, "-c", code)
    assert shown.returncode == -signal.SIGTERM


def test_a_command_that_is_not_there_gets_the_shells_status(perfdoctor):
    shown = perfdoctor("run", "no-such-command-anywhere")
    assert shown.returncode == 127
    assert shown.stderr.startswith("perfdoctor: no-such-command-anywhere: command not found\n")


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
