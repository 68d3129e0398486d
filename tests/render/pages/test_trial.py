from __future__ import annotations

from dataclasses import replace

import pytest

from perfdoctor.model.trial import Place
from perfdoctor.render.pages import trial as trial_page
from tests.support import trial_results as made
from tests.support.drawn import drawn

HERE = "/home/ada/digits"
ALL = made.trial(*made.ALL, interrupted=True)


def shown(trial, width=80, cwd="", **options):
    return drawn(trial_page.page(trial, cwd, **options), width)


@pytest.mark.parametrize("width", [40, 80, 100, 200])
@pytest.mark.parametrize("trial", [made.trial(), made.trial(made.FASTER), ALL], ids=["none", "one", "all"])
def test_no_line_is_wider_than_the_page(trial, width):
    assert max(map(len, shown(trial, width, cwd=HERE).splitlines())) <= min(width, 100)


def test_in_a_narrow_terminal_the_table_has_names_and_speedups():
    rows = [line.split() for line in shown(made.trial(made.FASTER), 40).splitlines()]
    assert ["--workers", "4", "1.9×", "faster"] in rows


def test_one_variant_is_told_from_verdict_to_what_to_type():
    page = shown(made.trial(made.FASTER), 80, cwd=HERE)
    lines = [line.strip() for line in page.splitlines() if line.strip()]
    assert lines[:3] == [
        "perfdoctor try  train.py --epochs 3",
        "3 rounds · 60 steps each, after 20 of warm-up · 4:07 min",
        "Faster: 1.9× (1.8–2.0×)",
    ]
    rows = {line.split()[0]: line.split() for line in lines}
    assert rows["original"][1:] == ["60", "ms", "1.2", "GB"]
    assert rows["--workers"][2:] == ["31.5", "ms", "1.9", "GB", "1.9×", "faster"]
    assert "predicted   1.9× (1.7–2.1×), as measured" in page
    assert "result      the same: 80 losses are equal to the last bit" in page
    assert "applied     train.py:41  DataLoader num_workers: 0 -> 4" in page
    assert "left alone  train.py:52  DataLoader: its IterableDataset would be read once" in page
    assert 'perfdoctor run --with "--workers 4" train.py --epochs 3' in page
    assert "files were written to a copy of the file system" in page
    assert "Kept in .perfdoctor/trials/20260102-030405-train" in page


def test_every_outcome_is_named_in_the_table_and_beside_its_variant():
    page = shown(ALL, 80, cwd=HERE)
    for verdict in made.ALL:
        assert page.count(verdict.outcome.value) >= 2
        assert " ".join(verdict.because.split()) in " ".join(page.replace("·", " ").split())


def test_what_withdrew_says_when_and_why_and_has_no_speedup():
    page = " ".join(shown(made.trial(made.WITHDRAWN), 80, cwd=HERE).split())
    assert "Withdrawn" in page
    assert "after 12 steps: optimizer.step: gradients are cleared without an update" in page
    assert "withdrawn train.py:60 optimizer.step: gradients are cleared without an update, after 12" in page
    assert "×" not in page.partition("What to do next")[0]


def test_a_wide_page_has_room_for_ranges_in_the_table():
    assert "1.9× (1.8–2.0×)  faster" in shown(ALL, 200)
    assert "1.9×  faster" in shown(ALL, 80)


def test_a_variant_that_was_compared_with_another_says_so_in_the_table():
    on_top = replace(made.FASTER, over=("--amp",))
    assert "on top: 1.9×  faster" in shown(made.trial(made.FASTER, on_top), 80)


def test_notes_that_hold_code_stay_one_paragraph():
    assert "a = b(c)" in shown(made.trial(made.FASTER, notes=("a =\n    b(c)",)), 80)


def test_where_a_step_holds_other_samples_throughput_is_shown():
    changed = replace(
        made.CHANGED, executions=made.executions(0.1, samples_per_s=2100.0), metric=(0.91, 0.9251)
    )
    page = shown(made.trial(changed, originals=made.executions(0.06, samples_per_s=1049.0)), 80)
    assert "samples/s" in page
    assert "1,049" in page
    assert "2,100" in page
    assert "metric" in page
    assert "0.91 -> 0.9251, as printed last" in page


def test_memory_is_the_devices_where_there_is_one_and_the_hosts_is_told_beside_it():
    after = replace(made.FASTER, executions=made.executions(0.03, device_bytes=3_000_000_000))
    page = shown(made.trial(after, originals=made.executions(0.06, device_bytes=4_000_000_000)), 80)
    assert "device" in page
    assert "host 1.2 GB -> 1.2 GB, device 4 GB -> 3 GB" in page


def test_a_failure_names_the_file_with_its_output():
    page = shown(made.trial(made.FAILED), 80, cwd=HERE)
    assert "RuntimeError: expected scalar type Half but found Float" in page
    assert "its output  .perfdoctor/trials/t/1.log" in page
    assert "What to do next" not in page


def test_many_places_are_counted():
    places = tuple(Place("amp", f"layer {number}") for number in range(9))
    page = shown(made.trial(replace(made.FASTER, executions=made.executions(0.03, applied=places))), 80)
    assert "layer 3" in page
    assert "layer 4" not in page
    assert "and in 5 more places" in page


def test_rounds_that_were_enough_are_said_to_be():
    assert "3 rounds, enough to tell" in shown(made.trial(made.FASTER, stopped_early=True))


def test_what_comes_from_the_script_is_harmless_and_no_markup():
    evil = replace(
        made.FASTER,
        because="\x1b]0;x\x07",
        executions=made.executions(0.03, applied=(Place("amp", "[bold]\x1b[31mNet"),)),
    )
    page = shown(made.trial(evil, evil, notes=("\x1b[2J",), command=("a\x1b[31m",)), 80)
    assert "\x1b" not in page
    assert "\x07" not in page
    assert "[bold]" in page


def test_what_shows_it_again_stands_on_a_line_of_its_own():
    path = ".perfdoctor/trials/20260102-030405-train"
    page = shown(replace(made.trial(made.SLOWER), path=path))
    assert f"Show again:\n    perfdoctor report --trials {path}\n" in page + "\n"


def test_earlier_trials_are_listed_by_id_with_their_verdicts():
    page = shown(made.trial(made.SLOWER), earlier=[made.trial(made.FASTER, made.FAILED)])
    listing = page[page.index("Earlier ones") :]
    assert "20260102-030405-train" in listing
    assert "--workers 4: faster: 1.9× (1.8–2.0×)" in listing
    assert "--amp --amp-dtype bf16: failed" in listing
    assert "Earlier ones" not in shown(made.trial(made.SLOWER))


def test_earlier_trials_of_another_folder_are_shown_from_there():
    page = shown(made.trial(made.SLOWER), earlier=[made.trial(made.FASTER)], out="a b")
    assert "Earlier ones: perfdoctor report --trials --out 'a b' ID" in page
