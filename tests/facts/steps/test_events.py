from __future__ import annotations

from dataclasses import replace

import pytest

from perfdoctor.facts.steps import events
from perfdoctor.facts.steps.boundaries import find
from perfdoctor.facts.steps.span import MeasuredSpan
from perfdoctor.facts.user_source.parse import Sources
from perfdoctor.model.interval import Interval
from perfdoctor.model.missing import Missing
from perfdoctor.runs.types import RankRecords
from tests.support.facts import line, run, stacks, step
from tests.support.records import MS, no_source, records, rows, source_of, update

STEPS = find(rows([update(10, calls=2, switches=8)] * 100))
WINDOW = MeasuredSpan.of(STEPS)
UNSAMPLED = Missing("no stack samples were taken")
AT = {"file": "train.py", "line": 5, "function": "main"}


def threads_of(own, boot, of_step):
    return events.thread_facts(records(boots=[boot] if boot else []), own, of_step)


def of(*entries):
    return RankRecords(0, None, None, entries)


def test_threads_are_torchs_own_choice_unless_someone_set_them():
    boot = {"threads": 8, "threads_env": {}}
    assert threads_of(of(), boot, step(forward=1)).set_by is None
    by_name = threads_of(of(), {"threads": 1, "threads_env": {"OMP_NUM_THREADS": "1"}}, step(forward=1))
    assert (by_name.intra_op, by_name.set_by) == (1, "OMP_NUM_THREADS=1")
    by_line = threads_of(of({"event": "threads", "intra_op": 2, "at": AT}), boot, step(forward=1))
    assert (by_line.intra_op, by_line.set_by, by_line.at.line) == (2, "torch.set_num_threads", 5)


def test_the_size_of_operations_is_compute_per_module():
    found = threads_of(of({"event": "root", "modules": 4}), {"threads": 2}, step(forward=3, backward=5))
    assert found.per_module_s == pytest.approx(0.002)


@pytest.mark.parametrize(("cpu", "module_s"), [(5, 0.001), (10, 0.002), (19, 0.002)])
def test_what_a_module_computes_is_no_more_for_a_core_that_others_had(cpu, module_s):
    crowded = step(data_wait=5, forward=3, backward=5, other=2, cpu=cpu)  # at work for 10 ms
    found = threads_of(of({"event": "root", "modules": 4}), {"threads": 2}, crowded)
    assert found.per_module_s == pytest.approx(module_s)


def test_modules_that_a_step_calls_again_and_again_compute_less_each():
    look = {"event": "calls", "look": 1, "seconds": 0.01, "calls": 16, "autocast": None, "wide_inputs": False}
    look |= {"synced": 0, "unsynced": 0, "biased": 0, "biased_elements": 0}
    found = threads_of(of({"event": "root", "modules": 4}, look), {"threads": 2}, step(forward=3, backward=5))
    assert found.per_module_s == pytest.approx(0.0005)


def test_unknown_threads_are_a_reason():
    assert threads_of(of(), None, step(forward=1)) == Missing("the number of torch's threads is not known")


def test_validation_is_split_by_the_passes_that_recorded_gradients():
    totals = [
        {"event": "eval", "calls": n, "grad_calls": n // 4, "seconds": n, "grad_seconds": n / 4, "at": AT}
        for n in (4, 8)
    ]
    found = events.eval_facts(of(*totals), step(forward=6, validation=4))
    assert (found.calls, found.grad_calls, found.at.line) == (8, 2, 5)
    assert (found.seconds_per_step, found.grad_seconds_per_step) == pytest.approx((0.004, 0.001))


def test_no_validation_and_no_checkpoint_are_answers():
    assert events.eval_facts(of(), step(forward=1)) is None
    assert events.save_facts(of(), run(), WINDOW, UNSAMPLED, Sources(no_source)) is None


def test_only_checkpoints_between_the_steps_count():
    saves = [
        {"event": "save", "begin_ns": t * MS, "seconds": 0.05, "bytes": 1000, "at": AT}
        for t in (500, 1200, 1700, 2500)
    ]
    found = events.save_facts(of(*saves), run(), WINDOW, UNSAMPLED, Sources(no_source))
    assert (found.count, found.bytes, found.steps_between) == (2, 1000, 50)
    assert found.seconds_per_step == pytest.approx(0.001)


def test_the_loop_that_saves_is_told():
    text = "for epoch in range(9):\n    for x in loader:\n        opt.step()\n    torch.save(model, path)"
    at = {"file": "/home/me/train.py", "line": 4, "function": "<module>"}
    saves = [{"event": "save", "begin_ns": t * MS, "seconds": 0.05, "at": at} for t in (1200, 1700)]
    found = events.save_facts(of(*saves), run(), WINDOW, UNSAMPLED, Sources(source_of(train=text)))
    assert found.interval == Interval("epoch", of_updates=False)


@pytest.mark.parametrize(
    ("outcome", "ended", "ran_on_ms", "goes_on"),
    [
        ("stopped", {"event": "end"}, 0, True),
        ("running", None, None, True),
        ("ok", {"event": "end"}, 5000, False),  # watched to its end: what follows the steps saves nothing
        ("ok", None, 5000, True),  # the watch was over long before
        ("ok", None, 100, False),  # it left without a word: no time for another checkpoint
        ("lost", None, None, False),
    ],
)
def test_checkpoints_go_on_where_the_watch_was_over_before_the_script(outcome, ended, ran_on_ms, goes_on):
    saves = [{"event": "save", "begin_ns": t * MS, "seconds": 0.05, "at": AT} for t in (1200, 1700)]
    end_ns = None if ran_on_ms is None else WINDOW.end_ns + ran_on_ms * MS
    rank = replace(of(*saves, *([ended] if ended else [])), run={"end_ns": end_ns})
    found = events.save_facts(rank, run(outcome=outcome), WINDOW, UNSAMPLED, Sources(no_source))
    assert found.goes_on is goes_on


def test_files_written_within_one_step_are_one_checkpoint():
    saves = [
        {"event": "save", "begin_ns": t * MS, "seconds": 0.01, "bytes": 1000, "at": AT}
        for t in (1201, 1202, 1203, 1401, 1402, 1403)
    ]
    beside = stacks(line(0.1, kind="checkpoint"), line(0.2, kind="logging"))
    found = events.save_facts(of(*saves), run(), WINDOW, beside, Sources(no_source))
    assert (found.count, found.bytes, found.steps_between) == (2, 3000, 20)
    assert found.beside_share == pytest.approx(0.1)
