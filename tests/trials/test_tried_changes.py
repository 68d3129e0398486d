from __future__ import annotations

from dataclasses import replace

import pytest

from perfdoctor.model.concluded import Bottleneck, Gain
from perfdoctor.model.trial import ModelledGain, Outcome, Setting, Variant
from perfdoctor.redaction.redact import REDACTED
from perfdoctor.render.documents import trial as document
from perfdoctor.trials import trial_file, tried_changes
from tests.support import trial_results as made

MODELLED = ModelledGain(Gain(1.75, 1.85, 1.95), (Bottleneck.DATA,), "cpu")
TRIED = replace(made.FASTER, modelled=MODELLED)


def of(*results, **fields):
    return tried_changes.of(made.trial(*results, cwd="/home/ada/digits", **fields), 1_700_000_000.0)


def test_a_variant_that_was_predicted_and_compared_with_the_original_is_told():
    (told,) = of(TRIED, command=("/no/python3", "train.py"))
    assert (told.epoch_s, told.tweaks, told.acts_on, told.device) == (
        1_700_000_000.0,
        ("--workers 4",),
        (Bottleneck.DATA,),
        "cpu",
    )
    assert (told.modelled, told.predicted, told.measured) == (
        MODELLED.gain,
        made.FASTER.predicted,
        made.FASTER.speedup,
    )
    assert told.outcome is Outcome.FASTER


@pytest.mark.parametrize(
    "other",
    [{"modelled": None}, {"predicted": None}, {"speedup": None}, {"over": ("--amp",)}],
    ids=str,
)
def test_what_was_not_predicted_or_compared_with_something_else_is_not(other):
    assert of(replace(TRIED, **other)) == ()
    assert len(of(TRIED, replace(TRIED, **other), replace(TRIED, outcome=Outcome.CHANGED))) == 2


def test_scripts_are_told_by_their_name_and_told_apart_by_their_folder_without_naming_it():
    here, again, there = (
        tried_changes.of(made.trial(TRIED, command=command, cwd=cwd), 0.0)[0]
        for command, cwd in (
            (("train.py", "--epochs", "3"), "/home/ada/a"),
            (("python3", "./train.py"), "/home/ada/a"),
            (("train.py",), "/home/ada/b"),
        )
    )
    assert [change.script for change in (here, again, there)] == ["train"] * 3
    assert here.script_id == again.script_id != there.script_id
    assert "ada" not in repr((here, there))


def test_a_name_that_is_no_text_is_told_all_the_same():
    (told,) = of(TRIED, command=("tr\udcff.py",))
    assert told.script == "tr\\udcff"


def test_a_secret_in_a_tweak_is_not_kept():
    setting = Setting("odd", ("--api-key", "abc"), {"value": "abc"}, made.BITWISE)
    (told,) = of(replace(TRIED, variant=Variant((setting,))))
    assert told.tweaks == (f"--api-key {REDACTED}",)


def test_the_trials_document_holds_what_the_model_said(tmp_path):
    trial = made.trial(TRIED, command=("python", "train.py"), path=str(tmp_path))
    trial_file.keep(trial, document.document(trial))
    assert trial_file.read(tmp_path) == trial
