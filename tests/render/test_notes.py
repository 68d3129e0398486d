from __future__ import annotations

import re
from string import Formatter

import pytest

from perfdoctor.facts.data import loader_notes
from perfdoctor.model.measured import Location
from perfdoctor.model.note import Note
from perfdoctor.render import notes
from perfdoctor.trials import scaling
from tests.support.paths import ROOT

SOURCES = [
    path.read_text(encoding="utf-8")
    for path in (ROOT / "perfdoctor").rglob("*.py")
    if path.name != "notes.py" and path.parent.name != "sentences"
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


@pytest.mark.parametrize(
    ("note", "sentence"),
    [
        (Note("broken-lines", {"file": "a.jsonl", "count": 1}), "a.jsonl: 1 broken line left out"),
        (Note("more-problems", {"count": 1}), "1 more problem with its files"),
        (Note("more-problems", {"count": 1200}), "1,200 more problems with its files"),
        (Note("broken-lines", {"file": "a.jsonl", "count": 2}), "a.jsonl: 2 broken lines left out"),
        (
            Note("of-folder", {"folder": "node1", "problem": Note("cut-short", {"file": "steps.rank3.bin"})}),
            "node1: steps.rank3.bin is cut short: its end is missing",
        ),
        (
            Note("started-again", {"times": 2, "shown": 1, "others": {0: 1030}}),
            "the launcher started the ranks 2 times: attempt 1 is shown; steps of the others: 1,030 in attempt 0",
        ),
        (
            Note("nodes-not-here", {"nodes": [1], "ranks": [2, 3], "join": "join"}),
            "the folder of node 1 is not here (ranks 2–3): join",
        ),
        (
            Note("nodes-not-here", {"nodes": range(1, 9), "ranks": [3], "join": "join"}),
            "the folder of nodes 1, 2, 3, 4, 5, 6 ... is not here (rank 3): join",
        ),
        (
            Note("different-versions", {"what": "torch", "versions": {"2.6": [0, 1], "2.5": [2]}}),
            "the ranks have different versions of torch: 2.5 (rank 2), 2.6 (ranks 0–1)",
        ),
        (
            Note("unequal-steps", {"low": 11, "high": 3000, "ranks": [2, 3]}),
            "the ranks took 11 to 3,000 steps, ranks 2–3 the fewest",
        ),
        (Note("unended-runs", {"names": ["b", "a"]}), "still running, or lost: b, a"),
        (Note("unended-runs", {"names": "abcdefgh"}), "still running, or lost: a, b, c, d, e, f and 2 more"),
        (
            Note("failed-with", {"workers": [0, 2], "failure": Note("iterated-once")}),
            "with 0, 2 workers: the dataset can be iterated only once",
        ),
        (
            Note(
                "failed-with",
                {
                    "workers": [1],
                    "failure": Note("loading-raised-at", {"error": "E: {x}", "file": "a.py", "line": 4}),
                },
            ),
            "with 1 worker: E: {x} (a.py:4)",
        ),
        (
            Note("no-gain-before", {"workers": 1}),
            "1 worker were not tried: the last two settings brought no gain",
        ),
        (Note("no-cold-samples", {"workers": [2, 4]}), "no cold samples were left for 2, 4 workers"),
        (
            Note("below-the-noise", {"names": ["--a", "--b"], "noise": 0.08}),
            "not tried: --a, --b: the predicted gains are below the noise here (8.0%)",
        ),
        (Note("more-ranks-than-gpus", {"ranks": 2, "gpus": 1}), "2 ranks on 1 GPU: they share them, or fail"),
        (Note("by-hand", {"words": "--amp", "places": (), "code": "autocast"}), "--amp by hand: autocast"),
        (
            Note("by-hand", {"words": "--amp", "places": (Location("a.py", 4),), "code": "autocast"}),
            "--amp by hand (a.py:4): autocast",
        ),
        (
            Note("not-compared", {"share": 0.5}),
            "50% of the time in collectives could not be compared between ranks: it counts as transfer time",
        ),
    ],
)
def test_what_a_note_counts_and_lists_is_written_out(note, sentence):
    assert notes.worded(note) == sentence


@pytest.mark.parametrize("slug", notes.SENTENCES)
def test_every_sentence_is_used_and_asks_for_formats_that_are_known(slug):
    assert slug in NAMED
    specs = [spec for _, name, spec, _ in Formatter().parse(notes.SENTENCES[slug]) if name]
    assert all(
        spec in notes.FORMATS or spec in ("", "g", ",") or spec.startswith((".", notes.NUMBER))
        for spec in specs
    )
    assert not notes.SENTENCES[slug].endswith(".")


def test_every_note_that_is_made_has_a_sentence():
    assert len(MADE) > 10
    assert set(notes.SENTENCES) >= MADE
    assert set(notes.SENTENCES) >= {*loader_notes.STOPS.values(), *scaling.BOUNDS.values()}
