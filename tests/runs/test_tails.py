from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest

from perfdoctor.model.measured import Marker
from perfdoctor.runs import tails
from perfdoctor.runs.tails import CountedSteps, LinesTail, RowsTail, StepCurve
from tests.support.processes import header
from tests.support.records import row, rows, update

SECOND_NS = 10**9


def add(path: Path, text: str) -> None:
    with open(path, "a") as file:
        file.write(text)


# ---------------------------------------------------------------- rows


def test_a_file_that_names_code_or_another_layout_in_its_header_has_no_tail(tmp_path):
    path = tmp_path / "steps.rank0.bin"
    for columns in ([["end_ns", "O"], ["begin_ns", "<i8"]], [["end_ns", "<i8"]], "end_ns", [7]):
        fields = {"pid": 1, "rank": 0, "row_bytes": 16, "columns": columns}
        path.write_bytes(json.dumps(fields).encode().ljust(4095) + b"\n" + bytes(64))
        assert RowsTail.of(path) is None
    fields = json.loads(header(1)) | {"schema": "perfdoctor.rows/99"}
    path.write_bytes(json.dumps(fields).encode().ljust(4095) + b"\n" + bytes(64))
    assert RowsTail.of(path) is None


def test_a_pipe_in_the_place_of_a_file_is_never_waited_for(tmp_path):
    os.mkfifo(tmp_path / "steps.rank0.bin")
    assert RowsTail.of(tmp_path / "steps.rank0.bin") is None
    os.mkfifo(tmp_path / "host.jsonl")
    assert LinesTail(tmp_path / "host.jsonl").new() == []


# ---------------------------------------------------------------- steps


def test_the_last_seconds_are_kept_and_at_least_some_rows():
    fast = CountedSteps(recent_s=1.0, least=4)
    fast.add(rows([update(100)] * 50))
    assert len(fast.recent) == 11  # those that ended within the last second
    slow = CountedSteps(recent_s=1.0, least=4)
    table = rows([update(5_000)] * 6)
    for place in range(6):
        slow.add(table[place : place + 1])
    assert (slow.steps, len(slow.recent)) == (6, 4)


def test_steps_are_those_of_the_strongest_kind_and_of_the_first_optimizer():
    seen = CountedSteps(recent_s=1.0)
    seen.add(rows([row(Marker.CALL, 10)] * 3))
    assert seen.steps == 3
    seen.add(rows([update(10, optimizer=number) for number in (1, 2, 1, 2)]))
    assert seen.steps == 2
    seen.add(rows([row(Marker.END, 10)]))
    assert (seen.rows, seen.steps) == (8, 2)


@pytest.mark.parametrize("block", [1, 7, 64, 1000])
def test_an_optimizer_that_takes_over_counts_from_its_first_step_on(block):
    folds = [number for number in (1, 2, 3) for _ in range(200)]  # as in cross-validation
    table = rows([update(10, optimizer=number) for number in folds])
    seen = CountedSteps(recent_s=1.0)
    for first in range(0, len(table), block):
        seen.add(table[first : first + block])
    assert seen.steps == 600
    assert seen.counts(table[-5:]).all()


@pytest.mark.parametrize("block", [1, 7, 1000])
def test_optimizers_that_take_turns_make_one_step_together(block):
    pattern = [2, *[3] * 5]  # an earlier one is gone
    table = rows([update(10, optimizer=number) for number in [1] * 100 + pattern * 50])
    seen = CountedSteps(recent_s=1.0)
    for first in range(0, len(table), block):
        seen.add(table[first : first + block])
    assert seen.steps == 100 + 50


# ---------------------------------------------------------------- the curve


def ends(*seconds: float) -> np.ndarray:
    return np.array([round(second * SECOND_NS) for second in seconds])


def test_the_curve_is_the_rate_of_each_second_that_is_over():
    curve = StepCurve()
    assert curve.steps_per_s == ()
    curve.add(ends(0.0, 0.5, 1.2, 2.5), np.array([1, 1, 1, 1]))
    assert curve.steps_per_s == (2.0, 1.0)
    curve.add(ends(3.1), np.array([1]))
    assert curve.steps_per_s == (2.0, 1.0, 1.0)


def test_the_curve_of_a_long_run_has_longer_stretches_and_loses_no_step():
    curve = StepCurve()
    for hour in range(10):
        curve.add(ends(*(hour * 3600 + second for second in range(3600))), np.full(3600, 2))
    rates = curve.steps_per_s
    assert tails.STRETCHES // 2 <= len(rates) < tails.STRETCHES
    assert rates == pytest.approx([2.0] * len(rates))


# ---------------------------------------------------------------- lines


def test_lines_are_read_once_and_only_when_they_are_finished(tmp_path):
    path = tmp_path / "host.jsonl"
    tail = LinesTail(path)
    assert tail.new() == []
    add(path, '{"a": 1}\n{"a": 2}\n{"a"')
    assert tail.new() == [{"a": 1}, {"a": 2}]
    assert tail.new() == []
    add(path, ": 3}\nno json\n[4]\n")
    assert tail.new() == [{"a": 3}]


def test_a_long_file_is_read_from_a_whole_line_near_its_end(tmp_path, monkeypatch):
    monkeypatch.setattr(tails, "LINES_BYTES", 100)
    path = tmp_path / "host.jsonl"
    add(path, "".join(f'{{"number": {number:04}}}\n'.replace("0", "1", 1) for number in range(50)))
    tail = LinesTail(path)
    first = tail.new()
    assert 0 < len(first) <= 100 // 17
    add(path, '{"last": 1}\n')
    assert tail.new() == [{"last": 1}]
    add(path, '{"more": 1}\n' * 50)  # more than one look reads: the newest are what counts
    assert tail.new() == [{"more": 1}] * 8


def test_a_file_that_is_shorter_than_before_is_another_one(tmp_path):
    path = tmp_path / "host.jsonl"
    add(path, '{"a": 1}\n{"a": 2}\n')
    tail = LinesTail(path)
    tail.new()
    path.write_text('{"b": 1}\n')
    assert tail.new() == [{"b": 1}]
