from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from perfdoctor.facts.data import loader_notes
from perfdoctor.model.note import Note
from perfdoctor.render.notes import worded
from perfdoctor.runs.types import RankRecords, RunRecords
from tests.facts.data.test_loader_curve import MADE, found, stretch


def slugs(notes):
    return [note.slug for note in notes]


def test_more_workers_are_advised_with_the_options_to_give():
    seen = found(stretch(0, 10), stretch(4, 40))
    assert loader_notes.headline(seen) == "4 workers would load 4.0× as fast as 0 now"
    code = "DataLoader(..., num_workers=4, prefetch_factor=2, persistent_workers=True)"
    assert loader_notes.code(seen) == code


def test_the_options_of_a_library_are_named_where_it_builds_the_loader():
    seen = found(stretch(0, 10), stretch(4, 40))
    assert seen.loader is not None
    code = loader_notes.code(replace(seen, loader=replace(seen.loader, library="transformers")))
    assert code is not None
    assert code.startswith("TrainingArguments(..., dataloader_num_workers=4")


def test_fewer_workers_that_do_as_well_are_said():
    seen = found(stretch(2, 39), stretch(8, 40), loader={**MADE, "num_workers": 8})
    assert loader_notes.headline(seen) == "2 workers would load as fast as 8 now"


def test_where_nothing_loads_faster_nothing_is_to_be_changed():
    seen = found(stretch(2, 40), stretch(4, 40), loader={**MADE, "num_workers": 2})
    assert "as now" in loader_notes.headline(seen)
    assert loader_notes.code(seen) is None


def test_a_wide_spread_gives_no_answer_unless_the_difference_is_far_wider():
    doubtful = found(stretch(0, 20), stretch(2, 14), stretch(2, 24, "cold"))
    assert loader_notes.headline(doubtful).startswith("No clear answer")
    assert loader_notes.code(doubtful) is None
    clear = found(stretch(0, 10), stretch(2, 14), stretch(2, 24, "cold"))
    assert loader_notes.headline(clear).startswith("2 workers would load")


def test_cores_that_other_programs_had_are_no_evidence_against_workers():
    starved = stretch(2, 10, cpu_s=0.1, workers_cpu_s=0.5, workers_delay_s=1.3)
    seen = found(stretch(0, 10), starved)
    assert seen.contention == pytest.approx(1.3 / 2)
    assert loader_notes.headline(seen).startswith("No clear answer: other programs held the cores")


def test_workers_that_wait_for_each_other_are_not_crowded_by_others():
    own = stretch(8, 40, cpu_s=0.1, workers_cpu_s=3.9, workers_delay_s=4.0)
    assert found(stretch(0, 10), own).contention == 0


def test_one_setting_is_no_comparison():
    assert loader_notes.headline(found(stretch(0, 10))) == "Only 0 workers could be measured"


def test_a_script_whose_workers_could_not_be_measured_is_not_advised_to_have_none():
    seen = found(stretch(0, 10), loader={**MADE, "num_workers": 2})
    assert loader_notes.headline(seen) == "Only 0 workers could be measured"
    assert (seen.knee, loader_notes.code(seen)) == (2, None)


def test_a_batch_that_waits_for_a_disk_is_told_from_one_that_computes():
    waits = stretch(0, 10, cpu_s=0.1, collate_s=0.0, collate_cpu_s=0.0)
    computes = stretch(0, 10, cpu_s=0.9, collate_s=0.0, collate_cpu_s=0.0)
    assert "reading-blocks" in slugs(loader_notes.reasons(found(waits)))
    assert "reading-blocks" not in slugs(loader_notes.reasons(found(computes)))


def test_a_slow_sampler_is_not_called_reading():
    slow = stretch(0, 10, cpu_s=0.3, collate_s=0.0, collate_cpu_s=0.0, draw_s=0.8, draw_cpu_s=0.1)
    cost = found(slow).cost
    assert cost is not None
    assert (cost.draw_s, cost.read_s, cost.blocked) == pytest.approx((0.08, 0.02, 0.0))
    assert loader_notes.reasons(found(slow)) == [Note("sampler-takes", {"share": pytest.approx(0.8)})]


def test_a_curve_that_ends_rising_says_so():
    rising, flat = (
        found(stretch(0, 10), stretch(4, 40)),
        found(stretch(0, 10), stretch(2, 40), stretch(4, 40)),
    )
    assert Note("loading-still-rises", {"workers": 4}) in loader_notes.reasons(rising)
    assert "loading-still-rises" not in slugs(loader_notes.reasons(flat))


def test_what_stops_a_curve_is_named():
    shared = {"event": "loading_stop", "workers": 8, "because": "shared memory"}
    assert Note("no-shared-memory-for", {"workers": 8}) in found(stretch(0, 10), stretch(1, 9), shared).notes


def test_secrets_in_what_a_script_raised_are_not_shown():
    error = "ConnectionError: https://u:Zk81@h/x?sig=abc refused password=Zk81"
    failed = {"event": "loading_failed", "workers": 0, "error": error}
    (note,) = [note for note in found(stretch(0, 10), failed).notes if "Connection" in str(note)]
    assert "https://<redacted>@h/x?sig=<redacted> refused password=<redacted>" in str(note)


def test_workers_that_die_the_same_way_share_a_note():
    died = [
        {
            "event": "loading_failed",
            "workers": count,
            "error": f"RuntimeError: DataLoader worker (pid(s) {count}1) exited",
        }
        for count in (1, 2)
    ]
    raised = Note("loading-raised", {"error": "RuntimeError: DataLoader worker exited"})
    both = Note("failed-with", {"workers": [1, 2], "failure": raised})
    assert both in found(stretch(0, 10), *died).notes


@pytest.mark.parametrize(
    ("events", "run", "words"),
    [
        ([{"event": "loading_none"}], {}, "trains without a DataLoader"),
        ([MADE, {"event": "loading_none"}], {}, "trains without a DataLoader"),
        ([MADE, {"event": "loading_none", "asked": True}], {}, "to measure (1: /home/ada/train.py:41)"),
        ([{"event": "loading_none", "asked": True}], {}, "trains without a DataLoader"),
        ([MADE, {"event": "loading_skipped", "id": 1}], {}, "1: /home/ada/train.py:41"),
        ([MADE], {}, "before it built the DataLoader to measure"),
        ([], {}, "never iterated a torch DataLoader"),
        ([], {"exit_code": 3}, "ended with status 3"),
        ([], {"notes": ["python -I drops the probe"]}, "python -I drops the probe"),
    ],
)
def test_why_nothing_was_measured_is_one_sentence(events, run, words):
    own = {0: RankRecords(0, None, None, tuple(events))} if events else {}
    why, _ = loader_notes.why_nothing(RunRecords(Path("x"), run, own))
    assert words in worded(why)
