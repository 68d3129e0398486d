from __future__ import annotations

import re
from string import Formatter

import pytest

from perfdoctor.model.note import Note
from perfdoctor.render import notes
from tests.support.paths import ROOT

SOURCES = [
    path.read_text(encoding="utf-8")
    for path in (ROOT / "perfdoctor").rglob("*.py")
    if path.name != "notes.py"
]
NAMED = {slug for source in SOURCES for slug in re.findall(r'"([a-z]+(?:-[a-z]+)*)"', source)}
MADE = {slug for source in SOURCES for slug in re.findall(r'Note\(\s*"([a-z-]+)"', source)}


def test_a_note_is_worded_with_its_values_in_the_units_that_the_sentence_asks_for():
    note = Note("exchange-takes", {"bytes": 1e8, "seconds": 0.0859})
    assert notes.worded(note).startswith("synchronising 100 MB of gradients takes 85.9 ms: if")


def test_a_sentence_that_another_process_has_written_stays_as_it_is():
    assert notes.all_worded(["{as} it is", Note("no-steps-marked")])[0] == "{as} it is"


def test_values_that_look_like_places_in_a_sentence_are_none():
    assert "{gain:percent}" in notes.worded(Note("ended-early", {"why": "{gain:percent}"}))


@pytest.mark.parametrize("slug", notes.SENTENCES)
def test_every_sentence_is_used_and_asks_for_formats_that_are_known(slug):
    assert slug in NAMED
    specs = [spec for _, name, spec, _ in Formatter().parse(notes.SENTENCES[slug]) if name]
    assert all(spec in notes.FORMATS or spec in ("", "g") or spec.startswith(".") for spec in specs)
    assert not notes.SENTENCES[slug].endswith(".")


def test_every_note_that_is_made_has_a_sentence():
    assert len(MADE) > 10
    assert set(notes.SENTENCES) >= MADE
