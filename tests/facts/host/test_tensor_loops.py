from __future__ import annotations

import pytest

from perfdoctor.facts.host.tensor_loops import TensorLoopFacts, shares, tensor_loop_facts
from perfdoctor.facts.user_source.parse import Sources
from perfdoctor.model.measured import LineCost, Location, OperatorCost, Phase, StackFacts, WindowFacts
from tests.support.facts import step
from tests.support.records import source_of

TRAIN = """\
def loss_of(rows, labels):
    total = 0
    for i in range(len(rows)):
        for j in range(len(rows)):
            d = torch.norm(rows[i] - rows[j])
            if labels[i] == labels[j]:
                total = total + d
    for row in rows:
        total += row.sum()
    return total
for epoch in range(3):
    for x, y in loader:
        out = model(x)
        z = out * 2
        for layer in layers:
            for step in range(9):
                h = torch.tanh(x[step] @ w + h @ u)
        for row in x:
            for weight in weights:
                seen.append(total * 2)
                total = total + torch.norm(row * weight)
"""
SOURCES = Sources(source_of(train=TRAIN))


def stacks(*lines):
    return StackFacts(100, "py-spy", {Phase.OTHER: lines, Phase.FORWARD: (cost(13),)})


def cost(number, kind="compute", leaf=None):
    return LineCost(Location("/home/me/train.py", number), 0.2, 100, leaf, kind)


@pytest.mark.parametrize(
    ("number", "counts"),
    [
        pytest.param(5, True, id="a-pair-of-rows"),
        pytest.param(6, True, id="an-if-on-a-tensor"),
        pytest.param(7, True, id="a-sum-over-all-turns"),
        pytest.param(9, False, id="one-loop-only"),
        pytest.param(14, False, id="the-training-loop-itself"),
        pytest.param(17, False, id="a-recurrence"),
        pytest.param(21, False, id="a-sum-that-is-read"),
    ],
)
def test_lines_deep_in_loops_count_where_turns_do_not_need_each_other(number, counts):
    found = loops(cost(number))
    assert (found == TensorLoopFacts((cost(number),))) is counts


@pytest.mark.parametrize(
    ("number", "operators", "counts"),
    [
        pytest.param(9, 400, True, id="many-turns-by-the-number-of-operators"),
        pytest.param(9, 50, False, id="few-or-large-operators"),
        pytest.param(14, 4000, False, id="the-training-loop-itself"),
        pytest.param(17, 4000, False, id="a-recurrence"),
    ],
)
def test_one_loop_counts_where_it_runs_many_small_operators(number, operators, counts):
    assert (loops(cost(number), operators=operators) is not None) is counts


def loops(*lines, operators=None):
    window = WindowFacts("w", 4, False, (OperatorCost("aten::add", 1.0, operators),)) if operators else None
    return tensor_loop_facts(stacks(*lines), SOURCES, None, step(forward=1.0), window)


def test_calls_of_modules_and_other_kinds_of_work_are_left_out():
    assert loops(cost(5, kind="logging"), cost(5, leaf="LSTMCell.forward")) is None


def test_backward_takes_as_much_of_its_time_for_them_as_going_forward_does():
    found = TensorLoopFacts((cost(5),))
    seconds = {Phase.FORWARD: 0.4, Phase.BACKWARD: 0.3, Phase.OTHER: 0.3}
    assert shares(found, seconds, 1.0) == (pytest.approx(0.2), pytest.approx(0.15))
    assert shares(found, {}, 0.0) == (pytest.approx(0.2), 0.0)
