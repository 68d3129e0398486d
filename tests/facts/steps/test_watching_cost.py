from __future__ import annotations

from dataclasses import replace

import pytest

from perfdoctor.facts.steps import watching_cost
from perfdoctor.facts.steps.boundaries import find
from perfdoctor.model.measured import CpuFacts, StackFacts
from perfdoctor.model.missing import Missing
from perfdoctor.runs.types import RankRecords
from tests.support.facts import step
from tests.support.records import MS, rows, update

STEPS = find(rows([update(10, calls=2, switches=8)] * 100))


def of(*entries):
    return RankRecords(0, None, None, entries)


def test_the_cost_of_watching_adds_up():
    entries = [
        {"event": "cost", "switch_ns": 100, "row_ns": 1000, "call_ns": 50},
        {"event": "root", "modules": 10},
    ]
    found = watching_cost.overhead_facts(of(*entries), STEPS, step(forward=10), [], None, None)
    assert found.seconds_per_step == pytest.approx(2.8e-6)
    assert found.share == pytest.approx(2.8e-4)
    assert isinstance(watching_cost.overhead_facts(of(), STEPS, step(forward=10), [], None, None), Missing)


def test_calls_of_modules_are_those_that_a_look_at_a_step_counted():
    cost = {"event": "cost", "switch_ns": 0, "row_ns": 0, "call_ns": 1000}
    look = {
        "event": "calls",
        "look": 1,
        "seconds": 0.01,
        "calls": 300,
        "autocast": None,
        "wide_inputs": False,
    }
    look |= {"synced": 0, "unsynced": 0, "biased": 0, "biased_elements": 0}
    entries = of(cost, {"event": "root", "modules": 10}, look)
    found = watching_cost.overhead_facts(entries, STEPS, step(forward=10), [], None, None)
    assert found.seconds_per_step == pytest.approx(300e-6)


def test_the_samplers_cores_are_their_cpu_over_time():
    samples = [{"t_ns": t * 1000 * MS, "perfdoctor_cpu_s": 1 + t * 0.02} for t in (1, 2, 3)]
    found = watching_cost.overhead_facts(of({"event": "cost"}), STEPS, step(forward=10), samples, None, None)
    assert found.sampler_cores == pytest.approx(0.02)


def test_windows_cost_their_start_stop_and_export_and_what_their_steps_took_beyond_the_mean():
    window = {
        "event": "window", "outcome": "ok", "steps": 4, "begin_ns": 10**9, "end_ns": 10**9 + 48 * MS,
        "start_s": 0.001, "stop_s": 0.010, "export_s": 0.005,
    }  # fmt: skip
    given_up = {"event": "window", "outcome": "yielded", "steps": 4, "start_s": 0.001, "stop_s": 0.002}
    assert watching_cost.windows_s(of(window), 0.010) == pytest.approx(0.016 + 5 * 0.002)
    assert watching_cost.windows_s(of(window), 0.020) == pytest.approx(0.016)
    assert watching_cost.windows_s(of(window, given_up), 0.020) == pytest.approx(0.019)
    assert watching_cost.windows_s(of(), 0.010) == 0


def test_a_window_without_a_step_of_warm_up_costs_what_its_steps_do_and_the_counting_before_it():
    window = {
        "event": "window", "outcome": "ok", "steps": 1, "begin_ns": 10**9, "end_ns": 10**9 + 30 * MS,
        "warm_up": 0, "count_s": 0.003,
    }  # fmt: skip
    put_off = {"event": "window", "outcome": "put_off", "steps": 1, "count_s": 0.004}
    assert watching_cost.windows_s(of(window, put_off), 0.010) == pytest.approx(0.020 + 0.003 + 0.004)


def test_the_overhead_includes_the_windows():
    cost = {"event": "cost", "switch_ns": 0, "row_ns": 0, "call_ns": 0}
    window = {"event": "window", "outcome": "ok", "steps": 4, "start_s": 0.1, "stop_s": 0.0, "export_s": 0.0}
    found = watching_cost.overhead_facts(of(cost, window), STEPS, step(forward=0.01), (), None, None)
    assert found.seconds_per_step == pytest.approx(0.1 / 100)


def test_the_overhead_includes_recording_collectives():
    cost = {"event": "cost", "switch_ns": 0, "row_ns": 0, "call_ns": 0}
    totals = [{"event": "collectives", "calls": calls, "own_s": 1e-5 * calls} for calls in (40, 100)]
    found = watching_cost.overhead_facts(of(cost, *totals), STEPS, step(forward=0.01), (), None, None)
    assert found.seconds_per_step == pytest.approx(1e-3 / 100)


def test_a_damaged_total_takes_no_time_away():
    cost = {"event": "cost", "switch_ns": 0, "row_ns": 0, "call_ns": 0}
    total = {"event": "collectives", "calls": 9, "own_s": -1.5e308}
    found = watching_cost.overhead_facts(of(cost, total), STEPS, step(forward=0.01), (), None, None)
    assert (found.seconds_per_step, found.share) == (0.0, 0.0)


def sampled(own, total, cpu=None):
    entries = of({"event": "cost", "switch_ns": 100, "row_ns": 1000, "call_ns": 50})
    lines = StackFacts(total, "py-spy", {}, own)
    return watching_cost.overhead_facts(entries, STEPS, step(forward=10), [], lines, cpu)


def test_stack_samples_that_met_the_probe_tell_what_it_really_took():
    found = sampled(100, 1000)
    assert found.seconds_per_step == pytest.approx(0.001)
    assert 0.0008 < found.low_seconds_per_step < 0.0009
    assert 0.0011 < found.high_seconds_per_step < 0.0013


def test_where_none_of_enough_samples_met_it_the_upper_end_is_below_a_hundredth():
    found = sampled(0, 270)
    assert found.seconds_per_step == found.low_seconds_per_step == pytest.approx(1.9e-6)
    assert found.high_seconds_per_step == pytest.approx(0.010 * 0.00992, rel=0.02)


def test_few_samples_leave_the_sum_of_its_moves_without_an_upper_end():
    for own in (0, 10):
        found = sampled(own, 100)
        assert found.seconds_per_step == pytest.approx(1.9e-6)
        assert found.high_seconds_per_step is None


def test_reports_of_samples_that_do_not_tell_have_no_upper_end():
    assert sampled(None, 100).high_seconds_per_step is None


def test_samples_do_not_tell_it_where_other_programs_hold_the_cores():
    crowded = CpuFacts(usable_cores=2, busy_cores=0.1, main_cores=0.1, worker_cores=None, other_cores=1.9)
    found = sampled(600, 1000, crowded)
    assert found.seconds_per_step == pytest.approx(1.9e-6)
    assert found.high_seconds_per_step is None
    assert sampled(600, 1000, replace(crowded, other_cores=0.0)).high_seconds_per_step > 0.005
