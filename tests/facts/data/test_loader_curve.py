from __future__ import annotations

from pathlib import Path

import pytest

from perfdoctor.facts.data.loader_curve import curve, knee
from perfdoctor.model.loader_curve import Rate
from perfdoctor.model.note import Note
from perfdoctor.runs.types import RankRecords, RunRecords

MADE = {
    "event": "loader",
    "id": 1,
    "num_workers": 0,
    "batch_size": 8,
    "dataset": "__main__.Items",
    "at": {"file": "/home/ada/train.py", "line": 41},
}
BEGUN = {"event": "loading", "id": 1, "built": 1, "ranks": 1, "seconds": 10.0, "same_dataset": [1]}
END = {"event": "loading_end", "outcome": "whole"}


def stretch(workers, batches_per_s, kind="warm", seconds=1.0, **more):
    return {
        "event": "loading_stretch",
        "workers": workers,
        "kind": kind,
        "batches": round(batches_per_s * seconds),
        "seconds": seconds,
        "block_s": [seconds / 4] * 4,
        "samples": 8.0,
        "bytes": 1000.0,
        "cpu_s": 0.1,
        "workers_cpu_s": 0.3,
    } | more


def records(*events, run=None, loader=MADE):
    run = {"cwd": "/home/ada", "command": ["train.py"], "host": {"usable_cores": 4.0}, "exit_code": 0} | (
        run or {}
    )
    own = RankRecords(0, None, None, (loader, BEGUN, *events, END))
    return RunRecords(Path("/home/ada/x"), run, {0: own})


def found(*events, **more):
    return curve(records(*events, **more), lambda file, line: "loader = DataLoader(items)")


def rate(batches_per_s, noise=0.0):
    return Rate(int(batches_per_s * 10), 10.0, noise, 8.0, 0.01)


def test_the_knee_is_the_smallest_number_of_workers_within_five_percent_of_the_best():
    rates = {0: rate(10), 1: rate(9), 2: rate(18), 4: rate(39), 8: rate(40)}
    assert knee(rates, now=0) == 4
    assert knee(rates | {4: rate(37)}, now=0) == 8


def test_settings_that_differ_by_less_than_the_noise_are_as_good_as_each_other():
    rates = {1: rate(9), 2: rate(36), 4: rate(40, noise=0.12)}
    assert knee(rates, now=1) == 2


def test_a_wild_spread_does_not_make_a_slow_setting_as_good():
    assert knee({1: rate(20), 2: rate(40, noise=0.9)}, now=1) == 2


def test_a_script_with_workers_is_not_advised_to_have_none():
    rates = {0: rate(40), 1: rate(10), 2: rate(10)}
    assert knee(rates, now=2) == 1
    assert knee(rates, now=0) == 0


def test_the_curve_holds_rates_memory_and_speedup():
    memory = {"event": "loading_memory", "workers": 4, "worker_bytes": 50_000.0}
    seen = found(stretch(0, 10), stretch(4, 40), memory)
    assert (seen.judged, seen.knee, seen.best, seen.speedup) == ("warm", 4, 4, 4.0)
    setting = seen.at(4)
    assert setting is not None
    assert setting.warm is not None
    assert (setting.warm.batches_per_s, setting.warm.samples_per_s, setting.warm.cpu_s) == (40, 320, 0.01)
    assert setting.shared_bytes == 4 * 2 * 1000
    assert setting.memory_bytes == 4 * 50_000 + 8000


def test_cold_rates_count_where_all_of_them_are_clearly_slower():
    warm = [stretch(0, 10), stretch(2, 20), stretch(4, 20)]
    cold = [stretch(workers, rate, "cold") for workers, rate in ((0, 5), (2, 10), (4, 17))]
    assert (found(*warm, *cold).judged, found(*warm, *cold).knee) == ("cold", 4)
    assert (found(*warm, *cold[:2], stretch(4, 19, "cold")).judged) == "warm"


def test_a_setting_without_cold_samples_does_not_make_warm_rates_count():
    warm = [stretch(0, 7), stretch(2, 15), stretch(8, 41)]
    cold = [stretch(0, 4, "cold"), stretch(2, 5, "cold")]
    seen = found(*warm, *cold, loader={**MADE, "num_workers": 2})
    assert (seen.judged, seen.knee, seen.code) == ("cold", 2, None)
    assert Note("no-cold-samples", {"workers": [8]}) in seen.notes


def test_one_setting_with_cold_samples_leaves_no_choice_between_cold_rates():
    seen = found(stretch(0, 7), stretch(2, 15), stretch(8, 41), stretch(2, 5, "cold"))
    assert (seen.judged, seen.knee) == ("warm", 8)


def test_reading_again_that_looks_slower_is_doubt_and_not_a_slower_setting():
    seen = found(stretch(0, 20), stretch(2, 15), stretch(2, 40, "cold"))
    assert (seen.judged, seen.knee) == ("warm", 2)
    assert seen.spread == pytest.approx((1 - 15 / 40) / 2)


def test_what_a_batch_costs_is_split_and_waiting_is_told_from_working():
    alone = stretch(0, 10, cpu_s=0.2, workers_cpu_s=0.0, delay_s=0.1, collate_s=0.1, collate_cpu_s=0.1)
    cost = found(alone, stretch(1, 20, "synthetic"), stretch(1, 9)).cost
    assert cost is not None
    assert (cost.read_s, cost.collate_s) == pytest.approx((0.09, 0.01))
    assert cost.hand_over_s == pytest.approx(0.05 - 0.01)
    assert cost.blocked == pytest.approx(1 - 0.2 / 0.9)


def test_workers_that_repeat_the_data_do_not_count():
    repeats = {"event": "loading_repeats", "workers": 2}
    seen = found(stretch(0, 10), stretch(1, 9), stretch(2, 20), repeats)
    assert seen.knee == 0
    assert Note("workers-repeat", {"workers": 2}) in seen.notes


def test_of_a_library_and_the_script_the_scripts_line_is_the_place():
    events = [{**MADE, "id": 2, "at": {"file": "/home/ada/train.py", "line": 50}}]
    begun = {**BEGUN, "id": 2, "same_dataset": [1, 2]}
    own = RankRecords(0, None, None, (MADE, *events, begun, stretch(0, 10)))
    lines = {41: "loader = DataLoader(items)", 50: "trainer.fit(model, loader)"}
    seen = curve(RunRecords(Path("x"), {}, {0: own}), lambda file, line: lines.get(line))
    assert seen.loader is not None
    assert seen.loader.at is not None
    assert (seen.loader.at.line, seen.outcome) == (41, "cut off")


@pytest.mark.parametrize(
    "broken",
    [
        {"batches": None},
        {"batches": 0},
        {"seconds": "long"},
        {"seconds": -1.0},
        {"kind": "lukewarm"},
        {"workers": None},
        {"workers": "2"},
        {"batches": 10**15, "seconds": 1e-308},
    ],
)
def test_a_damaged_record_is_no_measurement(broken):
    seen = found(stretch(0, 10), stretch(2, 20) | broken)
    assert [setting.workers for setting in seen.settings] == [0]


def test_without_a_measurement_there_is_a_reason():
    failed = {"event": "loading_failed", "workers": 0, "error": "ValueError: bad", "at": MADE["at"]}
    seen = found(failed, {**failed, "workers": 2})
    assert seen.settings == ()
    raised = Note("loading-raised-at", {"error": "ValueError: bad", "file": "train.py", "line": 41})
    assert seen.notes == (Note("failed-with", {"workers": [0, 2], "failure": raised}),)


def test_numbers_of_loaders_that_are_none_are_left_out():
    odd = RankRecords(0, None, None, ({**MADE, "id": [1]}, {**BEGUN, "same_dataset": [[1]]}, stretch(0, 10)))
    seen = curve(RunRecords(Path("x"), {}, {0: odd}), lambda file, line: None)
    assert seen.loader is None
    unnamed = RankRecords(0, None, None, ({**MADE, "id": None}, {**BEGUN, "id": None}, stretch(0, 10)))
    assert curve(RunRecords(Path("x"), {}, {0: unnamed}), lambda file, line: None).loader is None
    mixed = RankRecords(0, None, None, (MADE, {**BEGUN, "same_dataset": ["x", None, 1, 2.5]}, stretch(0, 10)))
    assert curve(RunRecords(Path("x"), {}, {0: mixed}), lambda file, line: None).loader is not None
