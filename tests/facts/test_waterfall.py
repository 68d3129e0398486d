from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from perfdoctor.facts.steps.boundaries import find
from perfdoctor.facts.waterfall import WORKERS, device_waterfall, waterfall
from perfdoctor.trace.measure.measure import measure
from perfdoctor.wire.collective_rows import ALL_REDUCE, COLLECTIVES, UNTIMED
from perfdoctor.wire.step_rows import DISTURBED, ROLLED_UP
from tests.support.records import MS, backward, fetches, records, rows, update
from tests.support.traces import Recording

STEP = {"data_wait": 4.0, "forward": 3.0, "backward": 2.0, "optimizer_ns": 0.5}


def shown(steps, **fields):
    rank = replace(records(steps).ranks[0], **fields)
    return waterfall(rank, find(steps))


def spans(lane):
    return [(part.kind, round(part.begin_s * 1e3, 3), round(part.end_s * 1e3, 3)) for part in lane.stretches]


def test_three_usual_steps_are_shown_with_their_phases_end_to_end():
    table = rows([update(500.0), *[update(10.0, **STEP) for _ in range(9)], update(80.0)])
    fall = shown(table)
    assert fall.borders_s == pytest.approx((0.01, 0.02, 0.03))
    (lane,) = fall.lanes
    assert spans(lane)[:5] == [
        ("data_wait", 0, 4),
        ("forward", 4, 7),
        ("backward", 7, 9),
        ("optimizer", 9, 9.5),
        ("other", 9.5, 10),
    ]
    assert len(lane.stretches) == 15


def test_phases_stay_in_the_rows_of_their_step():
    gan = [update(4.0, optimizer=1, forward=4.0), update(6.0, optimizer=2, backward=6.0)]
    fall = shown(rows([each for _ in range(20) for each in gan]))
    assert [kind for kind, _, _ in spans(fall.lanes[0])] == ["forward", "backward"] * 3


def test_disturbed_and_rolled_up_steps_are_not_usual():
    steps = [update(10.0) for _ in range(12)]
    for place in (3, 4, 5, 6, 7, 8):
        steps[place] = update(10.0, flags=DISTURBED)
    assert shown(rows(steps)).first in (1, 9)
    assert shown(rows([update(10.0, flags=ROLLED_UP, marks=50) for _ in range(9)])) is None


def test_a_run_of_two_steps_shows_one():
    fall = shown(rows([update(10.0), update(20.0)]))
    assert (fall.first, fall.borders_s) == (1, pytest.approx((0.02,)))


def test_workers_and_the_exchange_stand_beside_the_steps_that_they_overlap():
    table = rows([update(10.0, **STEP) for _ in range(9)])
    made = np.concatenate([fetches(6, 25.0, worker=worker, every_ms=30.0) for worker in range(WORKERS + 3)])
    made["collate_ns"] = 5 * MS
    exchanged = np.zeros(3, dtype=np.dtype(COLLECTIVES.described))
    exchanged["begin_ns"] = 1_000 * MS + 8 * MS + np.arange(3) * 10 * MS
    exchanged["end_ns"], exchanged["op"] = exchanged["begin_ns"] + 2 * MS, ALL_REDUCE
    exchanged["flags"][2] = UNTIMED
    fall = shown(table, loader=made, collectives=exchanged)
    begin_ms = fall.first * 10
    training, exchange, *workers = fall.lanes
    assert training.name == "training process"
    assert [lane.name for lane in workers] == [f"worker {number}" for number in range(WORKERS)]
    assert fall.workers == WORKERS + 3
    assert exchange.stretches[0].name == "all_reduce"
    timed = {(8 - begin_ms, 10 - begin_ms), (18 - begin_ms, 20 - begin_ms)}
    assert {(begin, end) for _, begin, end in spans(exchange)} <= timed
    assert {kind for kind, _, _ in spans(workers[0])} <= {"read", "collate"}
    for lane in fall.lanes:
        assert all(0 <= part.begin_s < part.end_s <= fall.length_s for part in lane.stretches)


def test_a_record_without_updates_is_shown_by_its_backwards():
    assert shown(rows([backward(10.0) for _ in range(6)])).length_s == pytest.approx(0.03)


def test_a_window_of_the_profiler_shows_the_device_beside_the_host():
    made = Recording()
    made.mark("ProfilerStep#3", 0, 1000)
    made.op("aten::mm", 100, 300)
    made.kernel("gemm", 200, 900)
    fall = device_waterfall(measure(made.trace()))
    assert (fall.window, fall.length_s, fall.workers) == ("ProfilerStep#3", 0.001, 0)
    assert [(lane.name, spans(lane)) for lane in fall.lanes] == [
        ("host, operators", [("operators", 0.1, 0.3)]),
        ("device, kernels", [("compute", 0.2, 0.9)]),
    ]


def test_a_window_without_a_device_or_a_step_shows_nothing():
    host, stepless = Recording(), Recording()
    host.mark("ProfilerStep#3", 0, 1000)
    host.op("aten::mm", 100, 300)
    stepless.kernel("gemm", 200, 900)
    assert device_waterfall(measure(host.trace())) is None
    assert device_waterfall(measure(stepless.trace())) is None
