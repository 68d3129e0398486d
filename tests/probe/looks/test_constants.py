"""What lies between constant calls of one line is theirs."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from perfdoctor.probe.looks import constants
from perfdoctor.probe.looks.constants import OuterTensors, StepCalls

GAP = 8


@pytest.fixture
def line(monkeypatch):
    """The user's line that calls from now on."""
    at = {"line": 1}
    monkeypatch.setattr(constants, "user_line", lambda: dict(at))
    return at


def call(step, function, *args, gap=GAP):
    """One call of 10 ns, so long after the one before it."""
    seen = step.before(function, args, {}, gap)
    result = function(*args)
    step.after(seen, function, result, 10)
    return result


def spent(step):
    return [one.ns for one in step.constant]


def test_the_time_between_two_constant_calls_of_a_line_counts_with_them(line):
    step, table = StepCalls(torch, OuterTensors()), torch.rand(3, 3)
    call(step, torch.Tensor.mul, call(step, torch.exp, table), 2.0)
    assert spent(step) == [10, 10 + GAP]


def test_what_else_is_done_between_turns_of_a_line_is_not_its_calls(line):
    step = StepCalls(torch, OuterTensors())
    for _ in range(3):  # items of a dataset that are read, or waited for, in a thousand nanoseconds each
        call(step, torch.ones, 3, gap=1000)
    assert spent(step) == [10, 10 + 10, 10 + 10]


def test_the_time_from_one_line_to_another_does_not(line):
    step, table = StepCalls(torch, OuterTensors()), torch.rand(3, 3)
    call(step, torch.exp, table)
    line["line"] = 2
    call(step, torch.sin, table)
    assert spent(step) == [10, 10]


def test_the_time_around_a_call_that_is_not_constant_does_not(line):
    step, table = StepCalls(torch, OuterTensors()), torch.rand(3, 3)
    call(step, torch.exp, table)
    call(step, torch.rand, 3)
    call(step, torch.sin, table)
    assert spent(step) == [10, 10]


def test_without_a_line_nothing_between_counts(line, monkeypatch):
    monkeypatch.setattr(constants, "user_line", lambda: None)
    step, table = StepCalls(torch, OuterTensors()), torch.rand(3, 3)
    call(step, torch.exp, table)
    call(step, torch.sin, table)
    assert spent(step) == [10, 10]
