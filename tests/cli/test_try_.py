from __future__ import annotations

import json
import os
from dataclasses import replace
from types import SimpleNamespace

import pytest

from perfdoctor import trials
from perfdoctor.cli import app, try_
from perfdoctor.cli import kept_report as saved
from perfdoctor.errors import PerfdoctorError
from perfdoctor.model.concluded import Advice, Bottleneck, Gain
from perfdoctor.model.trial import ModelledGain
from perfdoctor.model.tweak import Tweak
from perfdoctor.probe.trial.tweak import BITWISE, PATH, ROUNDING, Count, OneOf
from perfdoctor.trials import trial_file
from perfdoctor.trials.settings import tweak_catalogue
from perfdoctor.watch.machine import history
from tests.support import reports, trial_results

pytestmark = pytest.mark.process

KNOWN = [
    Tweak(
        "workers",
        "Use N workers",
        "--workers",
        BITWISE,
        Count(0, 512, auto=True),
        {},
        "Use N workers.\n\nText.",
    ),
    Tweak("amp", "Use autocast", "--amp", ROUNDING, None, {"--amp-dtype": OneOf("bf16")}, ""),
    Tweak("batch-size", "Use batches of N", "--batch-size", PATH, Count(1, 9), {}, ""),
]


@pytest.mark.parametrize(
    ("words", "own", "command"),
    [
        (["try", "--amp"], ["try", "--amp"], ()),
        (["try", "--amp", "--", "train.py", "-x"], ["try", "--amp"], ("train.py", "-x")),
        (["try", "--", "uv", "run", "--", "train.py"], ["try"], ("uv", "run", "--", "train.py")),
        (["try", "--"], ["try"], ()),
    ],
)
def test_the_command_begins_behind_the_first_dashes_and_keeps_its_own(words, own, command):
    assert try_.parted(words) == (own, command)


@pytest.fixture
def asked(folder, monkeypatch):
    """What the executor is asked for by a command line, instead of executing anything."""
    (folder / "train.py").write_text("pass\n")
    monkeypatch.setattr(tweak_catalogue, "tweaks", lambda: KNOWN)
    seen = SimpleNamespace(result=trial_results.trial(trial_results.FASTER, path=str(folder)))

    def run(asked, progress):
        seen.asked = asked
        progress.begin("original", 0, 2, 60.0)
        if isinstance(seen.result, PerfdoctorError):
            raise seen.result
        return seen.result

    monkeypatch.setattr(trials, "run", run)
    return seen


@pytest.fixture
def call(asked, capsys):
    """Calls the command line in this process: its status, and what it wrote."""

    def call(*words: str):
        status = 0
        try:
            app.start(["try", *words])
        except PerfdoctorError as error:
            return SimpleNamespace(status=error.exit_code, said=str(error), hint=error.hint or "")
        except SystemExit as end:
            status = end.code or 0
        shown = capsys.readouterr()
        return SimpleNamespace(
            status=status, said=shown.err, out=shown.out, asked=getattr(asked, "asked", None)
        )

    return call


@pytest.fixture
def advising(monkeypatch):
    """Lets saved runs advise these tweaks."""

    def advise(*tweaks: str | None) -> None:
        findings = tuple(
            replace(reports.WORKERS, advice=Advice(because=(), change=None, tweak=tweak)) for tweak in tweaks
        )
        monkeypatch.setattr(saved, "judge", lambda path: replace(reports.STARVED, findings=findings))

    return advise


def names(shown) -> list[str]:
    return [variant.name for variant in shown.asked.variants]


def test_tweaks_are_measured_together_on_the_command_given(folder, call):
    shown = call("--amp", "--workers", "4", "--", "train.py", "--epochs", "3")
    assert shown.status == 0, shown.said
    assert shown.asked.command == ("train.py", "--epochs", "3")
    assert names(shown) == ["--amp --workers 4"]
    assert (shown.asked.cwd, shown.asked.run) == (None, None)
    assert "Faster: 1.9×" in shown.out


def test_options_of_try_may_stand_anywhere_between_tweaks(call):
    shown = call(
        *("--workers=4", "--rounds", "7", "--steps", "50", "--amp", "--seconds", "90"),
        *("--metric", "acc: (.*)", "--yes", "--out", "kept", "--keep-arguments", "--", "train.py"),
    )
    assert names(shown) == ["--workers 4 --amp"]
    told = shown.asked
    assert (told.rounds, told.steps, told.seconds) == (7, 50, 90.0)
    assert (told.metric, told.yes, told.out, told.keep_arguments) == ("acc: (.*)", True, "kept", True)


def test_each_measures_every_tweak_alone_and_all_together(call):
    shown = call("--each", "--amp", "--workers", "4", "--", "train.py")
    assert names(shown) == ["--amp", "--workers 4", "--amp --workers 4"]
    assert names(call("--each", "--amp", "--", "train.py")) == ["--amp"]


def test_each_without_tweaks_takes_what_the_run_advises_each_tweak_once(folder, saved, call, advising):
    saved(command=["python", "train.py"], cwd=str(folder), started_epoch_s=4e9)
    advising("--workers 4 --amp", None, "--workers 8", "--batch-size 2")
    assert names(call("--each")) == [
        "--workers 4",
        "--amp",
        "--batch-size 2",
        "--workers 4 --amp --batch-size 2",
    ]


def test_each_without_tweaks_or_advice_is_told(folder, saved, call, advising):
    saved(command=["python", "train.py"], cwd=str(folder))
    advising(None)
    shown = call("--each")
    assert shown.status == 2
    assert shown.said == "no run of this command advises a tweak"


def test_auto_is_left_to_choose(asked, call):
    shown = call("--auto", "--", "train.py")
    assert shown.asked.auto
    assert shown.asked.variants == ()
    assert names(call("--auto", "--amp", "--workers", "4", "--", "train.py")) == ["--amp", "--workers 4"]


def test_without_a_command_the_last_runs_is_tried_in_its_folder_with_its_predictions(folder, saved, call):
    path = saved(command=["python", "train.py", "-x"], cwd=str(folder), started_epoch_s=4e9)
    shown = call("--amp")
    assert shown.status == 0, shown.said
    assert shown.asked.command == ("python", "train.py", "-x")
    assert (shown.asked.cwd, shown.asked.run) == (str(folder), path)


def test_what_is_worth_knowing_about_the_run_is_said_first(folder, saved, call):
    saved(command=["python", "train.py"], cwd=str(folder), started_epoch_s=1.0)
    shown = call("--amp")
    assert shown.said.startswith("perfdoctor: train.py has changed since run ")


def test_json_is_the_public_document_and_the_trial_is_kept(folder, call):
    shown = call("--amp", "--json", "--", "train.py")
    document = json.loads(shown.out)
    assert document["schema"] == "perfdoctor.trial/1"
    assert json.loads((folder / "trial.json").read_text()) == document
    assert trial_file.read(folder).verdicts[0].outcome.value == "faster"


def test_a_trial_that_cannot_be_kept_is_shown_all_the_same(folder, asked, call):
    asked.result = trial_results.trial(trial_results.FASTER, path=str(folder / "missing"))
    shown = call("--amp", "--", "train.py")
    assert shown.status == 0
    assert "the trial cannot be kept: No such file or directory" in shown.said
    assert "Faster" in shown.out


PREDICTED = replace(
    trial_results.FASTER, modelled=ModelledGain(Gain(1.75, 1.85, 1.95), (Bottleneck.DATA,), "cpu")
)


def test_what_was_predicted_and_measured_is_added_to_the_history(folder, asked, call, monkeypatch):
    monkeypatch.setenv(history.VARIABLE, str(folder / "history"))
    asked.result = trial_results.trial(PREDICTED, trial_results.SLOWER, path=str(folder))
    for _ in range(2):
        assert "history" not in call("--amp", "--", "train.py").said
    changes, unread = history.read()
    assert ([change.measured for change in changes], unread) == ([trial_results.FASTER.speedup] * 2, 0)


def test_a_trial_that_cannot_be_added_to_the_history_is_shown_all_the_same(folder, asked, call, monkeypatch):
    monkeypatch.setenv(history.VARIABLE, str(folder / "train.py"))
    asked.result = trial_results.trial(PREDICTED, path=str(folder))
    shown = call("--amp", "--", "train.py")
    assert shown.status == 0
    assert "the trial is not added to the history: " in shown.said
    assert "Faster" in shown.out


@pytest.mark.parametrize("verdict", trial_results.ALL, ids=lambda verdict: verdict.outcome.value)
def test_whatever_the_verdict_a_measured_trial_is_a_success(folder, asked, call, verdict):
    asked.result = trial_results.trial(verdict, path=str(folder))
    assert call("--amp", "--", "train.py").status == 0


@pytest.mark.parametrize("status", [130, 143])
def test_an_interrupted_trial_shows_what_it_measured_and_has_the_shells_status(folder, asked, call, status):
    asked.result = trial_results.trial(
        trial_results.FASTER, interrupted=True, exit_code=status, path=str(folder)
    )
    shown = call("--amp", "--", "train.py")
    assert shown.status == status
    assert "interrupted" in shown.out
    assert (folder / "trial.json").exists()


class BaselineFailed(PerfdoctorError):
    exit_code = 1


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (PerfdoctorError("the script takes 4 steps: too short to measure", "train longer"), 2),
        (PerfdoctorError("the script ended without a training step", "watch it first"), 2),
        (BaselineFailed("the script fails as it is: KeyError: 'x'", "its output is in calibration.log"), 1),
        (BaselineFailed("rank 1 fails as it is: KeyError: 'x'", "its output is in calibration.log"), 1),
        (PerfdoctorError("no space left on device", "give another folder with --out"), 2),
    ],
    ids=["too-short", "never-steps", "baseline", "one-rank", "disk-full"],
)
def test_what_keeps_a_script_from_being_measured_is_said_as_it_is(asked, call, error, status):
    asked.result = error
    shown = call("--amp", "--", "train.py")
    assert (shown.status, shown.said, shown.hint) == (status, str(error), error.hint)


def test_ranks_are_compared_instead_of_tweaks(folder, asked, call):
    asked.result = trial_results.scaled(path=str(folder))
    shown = call("--ranks", "4,1,2", "--rounds", "4", "--", "train.py", "-x")
    assert shown.status == 0, shown.said
    assert (shown.asked.ranks, shown.asked.variants, shown.asked.rounds) == ((1, 2, 4), (), 4)
    assert shown.asked.command == ("train.py", "-x")
    assert "2 ranks: 1.7× as fast as 1 rank" in shown.out


def test_ranks_of_the_last_runs_command_are_compared_in_its_folder(folder, saved, asked, call):
    asked.result = trial_results.scaled(path=str(folder))
    saved(command=["python", "train.py"], cwd=str(folder), started_epoch_s=4e9)
    shown = call("--ranks", "1,2")
    assert (shown.asked.command, shown.asked.cwd) == (("python", "train.py"), str(folder))


@pytest.mark.parametrize(
    ("words", "sentence", "hint"),
    [
        (("--ranks", "1,2", "--amp", "--", "train.py"), "--ranks and tweaks exclude", "compare ranks first"),
        (("--ranks", "1,2", "--auto", "--", "train.py"), "--ranks and tweaks exclude", "compare ranks first"),
        (("--ranks", "2", "--", "train.py"), "--ranks 2: one number", "--ranks 1,2"),
        (("--ranks", "x", "--", "train.py"), "--ranks x: these are not numbers of ranks", "--ranks 1,2,4"),
        (("--wokers", "4", "--", "train.py"), "no tweak called --wokers", "did you mean --workers"),
        (("--round", "4", "--", "train.py"), "no tweak called --round", "did you mean --rounds"),
        (("--amp", "train.py"), "train.py is not a tweak", "put the command after --"),
        (("--workers", "999", "--", "train.py"), "--workers 999: this value is not allowed", "0 to 512"),
        (("--workers", "--", "train.py"), "--workers needs a value", "0 to 512"),
        (("--auto", "--each", "--", "train.py"), "--auto and --each exclude each other", "choose one"),
        (("--amp",), "there is no command to try: no runs in", "or give the command after --"),
        (("--amp", "--run", "x"), "there is no command to try: no run called x", "perfdoctor runs"),
        (("--amp", "--run", "x", "--", "train.py"), "no run called x", "perfdoctor runs"),
        (
            (),
            "no tweak is given",
            "name one, as in: perfdoctor try --workers 4; all tweaks: perfdoctor try --list",
        ),
        (
            ("--", "train.py"),
            "no tweak is given, and no run advises one",
            "all tweaks: perfdoctor try --list",
        ),
        (("--amp", "--", "nothing-of-the-kind"), "nothing-of-the-kind: command not found", "name a script"),
    ],
)
def test_what_cannot_be_meant_is_said_with_what_to_type_next(call, words, sentence, hint):
    shown = call(*words)
    assert shown.status == 2
    assert shown.said.startswith(sentence)
    assert hint in shown.hint


@pytest.mark.parametrize(
    "words",
    [
        *(("--rounds", "2"), ("--steps", "0"), ("--metric",)),
        *(("--seconds", typed) for typed in ("x", "0", "inf", "nan")),
    ],
)
def test_options_out_of_range_are_refused(call, words):
    assert call("--amp", *words, "--", "train.py").status == 2


def test_without_a_tweak_what_the_run_advises_first_is_said(folder, saved, call, advising):
    saved(command=["python", "train.py"], cwd=str(folder), started_epoch_s=4e9)
    advising(None, "--persistent-workers", "--workers 4")
    shown = call()
    assert shown.status == 2
    assert (
        shown.hint
        == "the run advises: perfdoctor try --persistent-workers; all tweaks: perfdoctor try --list"
    )
    (run,) = (folder / ".perfdoctor" / "runs").iterdir()
    assert f"perfdoctor try --persistent-workers --run {run.name};" in call("--run", run.name).hint


def test_the_list_names_every_tweak_with_its_value(call):
    shown = call("--list")
    assert shown.status == 0
    assert "--workers N|auto" in shown.out
    assert "Use autocast" in shown.out


def test_the_list_explains_the_tweaks_named(call):
    shown = call("--list", "--workers", "4")
    assert shown.out.startswith("# workers\n")
    assert "Use autocast" not in shown.out
    assert call("--list", "--wokers").said == "no tweak called --wokers"
    assert call("--list", "wokers").said == "no tweak called --wokers"


@pytest.mark.parametrize(
    "words",
    [("--json",), ("--ranks", "1,2"), ("--out", "kept"), ("--run", "x"), ("--keep-arguments",)],
    ids=" ".join,
)
def test_the_list_refuses_what_it_would_drop(call, words):
    assert call("--list", *words).said == f"--list and {words[0]} cannot be combined"
    assert call("--list", "--", "train.py").said == "--list and the command cannot be combined"


def test_help_shows_how_tweaks_and_command_are_given(perfdoctor):
    shown = perfdoctor("try", "--help")
    assert shown.returncode == 0
    assert "[--TWEAK [VALUE]]..." in shown.stdout
    assert "perfdoctor try --workers 4 --amp -- train.py" in shown.stdout


def test_a_mistake_is_one_sentence_and_what_to_type_next(perfdoctor):
    shown = perfdoctor("try", "--wokers", "4", "--", "train.py")
    assert shown.returncode == 2
    assert shown.stdout == ""
    assert shown.stderr.splitlines() == [
        "perfdoctor: no tweak called --wokers",
        "  did you mean --workers? list them with: perfdoctor try --list",
    ]
    assert not os.path.exists(".perfdoctor")
