"""What authors of tips forget, checked for all of them at once."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perfdoctor.diagnosis.gains import gain_of
from perfdoctor.facts.predict.step_model import StepModel
from perfdoctor.model.change import Change
from perfdoctor.model.concluded import Advice
from perfdoctor.model.missing import Missing
from perfdoctor.model.tip import APPLIES, SAVES
from perfdoctor.tips import catalogue
from perfdoctor.trials.settings import flags, tweak_catalogue
from tests.support import examples
from tests.support.paths import TESTS

TIPS = catalogue.tips()
TWEAKS = tweak_catalogue.tweaks()
SECTIONS = ("## What it sees", "## By hand", "## When not")


each = pytest.mark.parametrize("tip", TIPS, ids=lambda tip: tip.id)


def test_the_catalogue_is_not_empty():
    assert len(TIPS) >= 8
    assert len({tip.id for tip in TIPS}) == len(TIPS)


@each
def test_its_page_has_every_section_in_order(tip):
    places = [tip.doc.find(section) for section in SECTIONS]
    assert -1 not in places
    assert places == sorted(places)


@each
def test_its_first_line_is_one_sentence(tip):
    first = tip.doc.split("\n\n")[0]
    assert first.endswith(".")
    assert first.count(". ") == 0


@each
def test_its_title_is_an_imperative_without_a_full_stop(tip):
    assert tip.title[0].isupper()
    assert not tip.title.endswith(".")


@each
def test_its_heading_uses_the_words_of_the_catalogue(tip):
    heading = tip.heading
    assert heading.applies
    assert set(heading.applies) <= set(APPLIES)
    assert heading.saves
    assert set(heading.saves) <= set(SAVES)
    others = {other.id: other.heading for other in TIPS if other.id != tip.id}
    assert set(heading.rivals) <= others.keys()
    assert set(heading.before) <= others.keys()
    assert not any(others[name].before for name in heading.before)  # no circles


def test_no_tip_is_there_and_planned():
    assert not set(catalogue.planned()) & {tip.id for tip in TIPS}


@each
def test_it_has_tests(tip):
    assert (TESTS / "tips" / f"test_{tip.id.replace('-', '_')}.py").is_file()


@each
def test_it_is_silent_on_a_healthy_run(tip):
    assert tip.judge(**{name: examples.healthy(kind) for name, kind in tip.needs.items()}) is None


@each
@settings(deadline=None)
@given(data=st.data())
def test_it_never_raises_and_its_change_is_in_order(tip, data):
    patient = examples.odd(data.draw, set(tip.needs.values()))
    needed = {name: patient[kind] for name, kind in tip.needs.items()}
    if any(isinstance(value, Missing) for value in needed.values()):
        return
    advice = tip.judge(**needed)
    if advice is None:
        return
    assert isinstance(advice, Advice)
    assert advice.because
    if advice.tweak is not None:  # one that exists, with a value that it takes
        flags.read(advice.tweak.split(), TWEAKS)
    change = advice.change or Change()
    for share in change.shares:
        assert -1e9 < share.low <= share.likely <= share.high <= 1 + 1e-9
    gain = gain_of(patient[StepModel] if isinstance(patient[StepModel], StepModel) else None, [change])
    assert 0 < gain.low <= gain.likely <= gain.high < float("inf")
    assert all(
        0 <= float(share) <= 100 for because in advice.because for share in re.findall(r"([\d.]+)%", because)
    )
