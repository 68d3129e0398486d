from __future__ import annotations

from perfdoctor.facts.gather import gather
from perfdoctor.facts.steps import tweak_notes
from perfdoctor.model.measured import Location
from perfdoctor.model.note import Note
from perfdoctor.model.trial import Place
from perfdoctor.render.notes import all_worded
from tests.support.records import no_source, records, rows, update

AT = {"file": "/home/me/train.py", "line": 41, "function": "main"}
WORKERS = {
    "event": "tweak",
    "tweak": "workers",
    "outcome": "applied",
    "what": "num_workers",
    "was": 0,
    "now": 4,
    "at": AT,
}
LEFT = {
    "event": "tweak",
    "tweak": "workers",
    "outcome": "left_alone",
    "what": "DataLoader",
    "because": "it streams",
    "at": AT | {"line": 52},
}


def notes(tweaks, *events):
    return all_worded(made(tweaks, *events))


def made(tweaks, *events):
    return list(tweak_notes.notes(records(events=events, run={"tweaks": tweaks, "cwd": "/home/me"})))


def test_a_tweak_says_where_it_was_applied_and_what_it_left_alone():
    assert notes({"workers": {"value": 4}}, WORKERS, LEFT) == [
        "--workers 4 was on: num_workers 0 -> 4 (train.py:41); left alone: DataLoader (train.py:52), because it streams"
    ]


def test_a_tweak_that_withdrew_says_why():
    gone = LEFT | {"outcome": "withdrawn"}
    assert notes({"workers": {"value": 4}}, WORKERS, gone)[1:] == [
        "--workers 4 withdrew before the end: DataLoader (train.py:52), because it streams"
    ]
    assert notes({"workers": {"value": 4}}, gone) == ["--workers 4 was on: it found nothing to change"]


def test_the_places_are_values_of_the_note():
    place = Place("workers", "num_workers", Location("train.py", 41), 0, 4)
    assert made({"workers": {"value": 4}}, WORKERS, WORKERS) == [
        Note("tweak-on", {"tweak": "--workers 4", "places": [place]})
    ]


def test_a_tweak_that_changed_nothing_says_so():
    assert notes({"amp": {"amp_dtype": "bf16"}}) == [
        "--amp --amp-dtype bf16 was on: it found nothing to change"
    ]


def test_what_several_ranks_tell_is_said_once_and_long_lists_are_cut():
    events = [WORKERS | {"what": f"layer {number}", "was": None} for number in (1, 1, 2, 3, 4, 5)]
    (note,) = notes({"workers": {"value": 4}}, *events)
    assert note.endswith("layer 1 4 (train.py:41), layer 2 4 (train.py:41), layer 3 4 (train.py:41), 2 more")


def test_a_run_without_tweaks_or_with_a_damaged_header_has_no_notes():
    assert notes({}) == notes(None) == notes(["workers"]) == []
    assert notes({"workers": None}) == ["--workers was on: it found nothing to change"]


def test_the_notes_stand_in_the_report():
    run = records(rows([update()] * 20), events=[WORKERS], run={"tweaks": {"workers": {"value": 4}}})
    assert any("--workers 4 was on" in note for note in all_worded(gather(run, no_source, {}).notes))
