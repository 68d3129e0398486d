"""Whole reports from synthetic records, sound, broken and missing."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perfdoctor.facts.device.profiler_windows import NO_WINDOW
from perfdoctor.model.concluded import Bottleneck, Confidence, Verdict
from perfdoctor.model.measured import Location, Marker
from perfdoctor.model.note import Note
from perfdoctor.render.notes import all_worded
from perfdoctor.runs.types import RankRecords, RunRecords
from tests.support import job_facts
from tests.support.judging import report
from tests.support.records import MS, fetches, no_source, records, row, rows, source_of, update

FILE = "/home/me/train.py"
LOADER = {
    "event": "loader",
    "id": 1,
    "num_workers": 0,
    "dataset": "train.Data",
    "at": {"file": FILE, "line": 1, "function": "main"},
}
EPOCH = {
    "event": "epoch",
    "loader": 1,
    "index": 0,
    "begin_ns": 1000 * MS,
    "t_ns": 1020 * MS,
    "startup_ns": 0,
    "first_wait_ns": 12 * MS,
}
STARVED = rows(
    [update(20, data_wait=12, forward=3, backward=4, batches=1, samples=32, process_cpu_ns=19 * MS)] * 600
)


def starved(**given):
    return records(STARVED, fetches(600, 12, every_ms=20), [LOADER, EPOCH], **given)


def test_a_starved_run_is_told_what_to_change_and_where():
    told = report(starved(), source_of(train="loader = DataLoader(data)"))
    assert told.diagnosis.verdict is Verdict.DATA
    assert told.diagnosis.confidence is Confidence.HIGH
    assert told.diagnosis.model_error == pytest.approx(0.0)
    first = told.findings[0]
    assert (first.id, first.advice.tweak) == ("too-few-workers", "--workers 2")
    assert first.advice.at == (Location(FILE, 1, "main", "loader = DataLoader(data)"),)
    assert first.gain.likely <= told.diagnosis.bounds[Bottleneck.DATA]


def test_tips_that_lack_stacks_say_so():
    told = report(starved(), no_source)
    assert {entry.id: entry.because for entry in told.not_judged}[
        "logging-every-step"
    ] == "no stack samples were taken"


def test_tips_that_need_a_trace_of_the_device_say_so_where_there_is_a_device():
    device = {"event": "device", "backend": "cuda", "name": "NVIDIA A100"}
    on_device = report(records(STARVED, fetches(600, 12, every_ms=20), [LOADER, EPOCH, device]), no_source)
    reasons = {entry.id: entry.because for entry in on_device.not_judged}
    assert reasons["no-mixed-precision"] == NO_WINDOW.reason
    on_cpu = report(starved(), no_source)
    assert "no-mixed-precision" not in {entry.id for entry in on_cpu.not_judged}


def test_nothing_that_trained_is_inconclusive_and_says_why():
    for steps in (None, rows([]), rows([row(Marker.END, 10)])):
        told = report(records(steps), no_source)
        assert told.steps is None
        assert told.diagnosis.verdict is Verdict.INCONCLUSIVE
        assert told.diagnosis.because == ("no training step was seen",)
        assert told.findings == ()


def test_a_run_whose_probe_never_woke_says_so(tmp_path):
    told = report(RunRecords(tmp_path, {}, {}), no_source)
    assert told.diagnosis.because == ("no watched process imported torch",)
    assert told.run.outcome == "lost"


def test_of_several_ranks_the_report_is_about_the_lowest_that_trained():
    own = starved()
    slow = RankRecords(1, rows([update(40)] * 300), None, ())
    both = RunRecords(own.path, own.run, {**own.ranks, 1: slow}, own.boots)
    told = report(both, no_source, job=job_facts.job(2, slow=1))
    assert told.run.ranks == 2
    assert told.steps.mean_s == pytest.approx(0.02)
    assert told.job.world == 2
    assert "findings and phases are for rank 0" in all_worded(told.notes)


def test_waiting_for_a_late_rank_is_charged_to_what_makes_it_late():
    blocked = rows([update(20, forward=6, backward=6, grad_sync=8)] * 300)
    job = replace(job_facts.job(2, slow=1), waits={Bottleneck.DATA: 0.006})
    told = report(records(blocked), no_source, job=job).diagnosis
    assert told.classes[Bottleneck.DATA] == pytest.approx(0.3)
    assert told.classes[Bottleneck.NETWORK] == pytest.approx(0.1)
    assert told.verdict is Verdict.DATA
    assert "30% is waiting for rank 1, charged to what makes that rank late" in told.because


def test_so_is_what_other_programs_hold_up_of_an_exchange():
    blocked = rows([update(20, forward=6, backward=6, grad_sync=8)] * 300)
    job = replace(job_facts.job(2, slow=None), contention_s=0.007)
    told = report(records(blocked), no_source, job=job).diagnosis
    assert told.classes[Bottleneck.NETWORK] == pytest.approx(0.05)
    assert told.classes[Bottleneck.COMPUTE] == pytest.approx(0.95)


def test_problems_of_reading_become_notes():
    own = starved()
    told = report(
        RunRecords(
            own.path,
            own.run,
            own.ranks,
            own.boots,
            problems=(Note("broken-lines", {"file": "host.jsonl", "count": 1}),),
        ),
        no_source,
    )
    assert "host.jsonl: 1 broken line left out" in all_worded(told.notes)


def test_a_single_step_is_counted_and_not_judged():
    told = report(records(rows([update(10, forward=10)])), no_source)
    assert told.steps.count == 1
    assert told.diagnosis.verdict is Verdict.INCONCLUSIVE
    assert told.findings == ()
    assert "only 1 step seen in 10 ms" in {entry.because for entry in told.not_judged}


JSON = st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4)
NAMES = (
    "id loader index t_ns begin_ns startup_ns first_wait_ns batches wait_ns num_workers pid seconds bytes at calls "
    "grad_calls grad_seconds intra_op modules switch_ns prefetch_factor persistent_workers workers names procs"
)
PLACES = st.dictionaries(st.sampled_from(["file", "line", "function"]), JSON, max_size=3)
ODD = st.dictionaries(st.sampled_from(NAMES.split()), JSON | st.lists(JSON, max_size=2) | PLACES, max_size=8)
EVENT = st.builds(
    lambda kind, entry: {**entry, "event": kind},
    st.sampled_from(
        "loader epoch epoch_end root grad_names threads save eval worker cost end device".split()
    ),
    ODD,
)


@settings(deadline=None)
@given(
    events=st.lists(EVENT, max_size=8),
    run=st.dictionaries(
        st.sampled_from(["command", "begin_ns", "end_ns", "host", "exit_code", "id"]), JSON, max_size=4
    ),
    host=st.lists(
        st.dictionaries(st.sampled_from(["t_ns", "procs", "net", "usable_cores"]), JSON, max_size=3),
        max_size=3,
    ),
    waits=st.lists(st.floats(0, 100), min_size=1, max_size=30),
)
def test_odd_records_never_break_a_report(events, run, host, waits):
    steps = rows([update(wait + 1, data_wait=wait, forward=1) for wait in waits] * 5)
    told = report(records(steps, fetches(len(waits), 5), events, host=host, run=run), no_source)
    assert sum(told.diagnosis.classes.values()) == pytest.approx(1.0)
    for found in told.findings:
        gain, ceiling = found.gain, told.diagnosis.bounds[found.bottleneck]
        assert 0 < gain.low <= gain.likely <= gain.high <= ceiling + 1e-9


def test_loader_rows_of_nobody_are_passed_over():
    told = report(records(STARVED, np.concatenate([fetches(3, 1, loader=9)])), no_source)
    assert told.loader is None
