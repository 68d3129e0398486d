from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from perfdoctor import tips
from perfdoctor.errors import PerfdoctorError
from perfdoctor.model.trial import Variant
from perfdoctor.model.tweak import Tweak
from perfdoctor.probe.trial.tweak import AUTO, BITWISE, PATH, ROUNDING, Count, OneOf
from perfdoctor.trials.settings import flags, tweak_catalogue

WORKERS = Tweak("workers", "Use N workers", "--workers", BITWISE, Count(0, 512, auto=True), {}, "")
AMP = Tweak("amp", "Use autocast", "--amp", ROUNDING, None, {"--amp-dtype": OneOf("bf16", "fp16")}, "")
SUM = Tweak("accumulate", "Sum up", "--accumulate", PATH, Count(2, 64), {"--sum-way": OneOf("a", "b")}, "")
KNOWN = [WORKERS, AMP, SUM]


def read(line: str):
    return flags.read(shlex.split(line), KNOWN, ("--steps", "--rounds"))


def test_flags_become_settings_in_the_order_typed():
    amp, workers = read("--amp --workers 8")
    assert (amp.tweak, amp.words, amp.values, amp.result) == ("amp", ("--amp",), {}, ROUNDING)
    assert (workers.words, workers.values) == (("--workers", "8"), {"value": 8})


def test_a_value_may_stand_behind_an_equals_sign():
    assert read("--workers=8") == read("--workers 8")


def test_no_words_are_no_settings():
    assert read("") == ()


@pytest.mark.parametrize(
    ("words", "ids"),
    [
        ("--workers 4 --amp", ["workers", "amp"]),
        ("--workers=4 amp", ["workers", "amp"]),
        ("workers amp", ["workers", "amp"]),
        ("--amp-dtype bf16", ["amp"]),
    ],
)
def test_tweaks_to_list_are_named_by_flags_or_ids(words, ids):
    assert [tweak.id for tweak in flags.listed(words.split(), KNOWN)] == ids


@pytest.mark.parametrize("words", ["workerz", "amp foo", "--workers 4 foo"])
def test_a_word_to_list_that_is_neither_tweak_nor_value_is_told(words):
    with pytest.raises(PerfdoctorError, match="no tweak called --"):
        flags.listed(words.split(), KNOWN)


def test_auto_stays_to_be_settled_later():
    (setting,) = read("--workers auto")
    assert setting.values == {"value": AUTO}
    assert setting.words == ("--workers", "auto")


@pytest.mark.parametrize("line", ["--amp --amp-dtype bf16", "--amp-dtype bf16 --amp", "--amp-dtype=bf16"])
def test_a_flag_that_goes_with_a_tweak_implies_it(line):
    (setting,) = read(line)
    assert setting.words == ("--amp", "--amp-dtype", "bf16")
    assert Variant((setting,)).tweaks == {"amp": {"amp_dtype": "bf16"}}


def test_a_flag_that_goes_with_a_tweak_cannot_say_the_value_of_the_tweak_itself():
    with pytest.raises(PerfdoctorError, match="--accumulate is missing") as caught:
        read("--sum-way a")
    assert caught.value.hint == "--accumulate takes a whole number from 2 to 64"


@pytest.mark.parametrize(
    ("line", "sentence", "hint"),
    [
        (
            "--wokers 8",
            "no tweak called --wokers",
            "did you mean --workers? list them with: perfdoctor try --list",
        ),
        ("--step 8", "no tweak called --step", "did you mean --steps? list them with: perfdoctor try --list"),
        ("--frobnicate", "no tweak called --frobnicate", "list them with: perfdoctor try --list"),
        ("-w 8", "no tweak called -w", "list them with: perfdoctor try --list"),
        ("--amp train.py", "train.py is not a tweak", "put the command after --: "),
        ("--amp true", "true is not a tweak", "--amp takes no value; put the command after --: "),
        ("--workers 4 -m pkg.train", "-m is not a tweak", "put the command after --: "),
        ("amp", "no tweak called amp", "did you mean --amp? "),
        ("amp_dtype bf16", "no tweak called amp_dtype", "did you mean --amp-dtype? "),
        ("--workers", "--workers needs a value", "--workers takes a whole number from 0 to 512 or auto"),
        ("--workers --amp", "--workers needs a value", "--workers takes a whole number"),
        ("--workers many", "--workers many: this value is not allowed", "--workers takes a whole number"),
        ("--workers -1", "--workers -1: this value is not allowed", "--workers takes a whole number"),
        ("--workers 513", "--workers 513: this value is not allowed", "from 0 to 512 or auto"),
        ("--workers=", "--workers : this value is not allowed", "--workers takes a whole number"),
        ("--accumulate auto", "--accumulate auto: this value is not allowed", "from 2 to 64"),
        ("--amp=yes", "--amp takes no value", "write it like: perfdoctor try --amp"),
        ("--amp-dtype fp8", "--amp-dtype fp8: this value is not allowed", "one of bf16, fp16"),
        ("--amp --amp", "--amp is given twice", "give each tweak only once"),
        ("--workers 2 --workers=2", "--workers is given twice", "give each tweak only once"),
    ],
)
def test_what_cannot_be_meant_is_said_with_what_is_allowed(line, sentence, hint):
    with pytest.raises(PerfdoctorError) as caught:
        read(line)
    assert str(caught.value) == sentence
    assert hint in caught.value.hint
    assert caught.value.exit_code == 2


def advised() -> list[str]:
    """The flags that tips name, with figures for what they compute."""
    folder = Path(tips.__path__[0])
    found = [
        word
        for file in folder.glob("*.py")
        for word in re.findall(r'tweak=\D*?"(--[^"]+)"', file.read_text())
    ]
    return [re.sub(r"\{\w+\}", "4", word.replace("{live_on}", " --persistent-workers")) for word in found]


@pytest.mark.parametrize("words", advised())
def test_what_tips_advise_to_try_can_be_read(words):
    assert flags.read(shlex.split(words), tweak_catalogue.tweaks())
