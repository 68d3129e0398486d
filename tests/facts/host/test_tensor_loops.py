from __future__ import annotations

from dataclasses import replace

import pytest

from perfdoctor.facts.host.stack_costs import StackCost, StackCosts
from perfdoctor.facts.host.tensor_loops import tensor_loop_facts
from perfdoctor.facts.user_source.frames import Frame, Owner
from perfdoctor.facts.user_source.parse import Sources
from perfdoctor.model.measured import LineCost, Location, OperatorCost, Phase, StackFacts, WindowFacts
from perfdoctor.runs.types import RankRecords
from tests.support.facts import device, step
from tests.support.line_facts import lines
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
FILE = "/home/me/train.py"
SOURCES = Sources(source_of(train=TRAIN))


def stacks(*lines):
    return StackFacts(100, "py-spy", {Phase.OTHER: lines, Phase.FORWARD: (cost(13, None, "Net.forward"),)})


def cost(number, kind="compute", leaf=None):
    return LineCost(Location(FILE, number), 0.2, 100, leaf, kind)


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
    assert (found is not None and found.lines == (cost(number),)) is counts


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
    return tensor_loop_facts(stacks(*lines), SOURCES, None, None, step(forward=1.0), window, looked_at())


@pytest.mark.parametrize(
    ("calls", "counts"),
    [
        pytest.param([400, 400], True, id="many"),
        pytest.param([20], False, id="few"),
        pytest.param([], False, id="unseen"),
    ],
)
def test_without_a_window_calls_that_were_looked_at_tell_how_many_operators_a_line_runs(calls, counts):
    times = step(forward=0.5, backward=0.5)  # the line takes 0.2 of it, which is 40 % of the calls
    found = tensor_loop_facts(stacks(cost(9)), SOURCES, None, None, times, None, looked_at(*calls))
    assert (found is not None) is counts


@pytest.mark.parametrize(
    ("called_s", "counts"), [pytest.param(0.02, True, id="small"), pytest.param(0.4, False, id="large")]
)
def test_of_a_look_that_saw_the_begin_of_a_step_the_time_of_its_calls_tells(called_s, counts):
    rank = looked_at(20)
    rank.of("constants_look")[0]["called_s"] = called_s  # of 20 calls; the line takes 0.2 of a second
    found = tensor_loop_facts(stacks(cost(9)), SOURCES, None, None, step(forward=1000), None, rank)
    assert (found is not None) is counts


def looked_at(*calls):
    """A rank whose calls were looked at in some steps."""
    events = [
        {"event": "constants_look", "look": number, "step_s": 1.0, "calls": count}
        for number, count in enumerate(calls, 1)
    ]
    return RankRecords(0, None, None, events)


def test_calls_of_modules_and_other_kinds_of_work_are_left_out():
    assert loops(cost(5, kind="logging"), cost(5, leaf="LSTMCell.forward")) is None


def test_what_the_timers_charge_to_forward_is_known():
    between = stacks(cost(5))  # 20 % of the time, and the timers saw no more than 5 % outside the phases
    for other, in_forward in ((0.0, 0.2), (0.05, 0.15), (0.5, 0.0)):
        times = step(forward=1 - other, other=other)
        found = tensor_loop_facts(between, SOURCES, None, None, times, None, looked_at())
        assert found.in_forward == pytest.approx(in_forward)


def test_lines_of_the_model_itself_count_with_what_they_take_in_validation():
    found = StackFacts(100, "py-spy", {Phase.FORWARD: (cost(5, None), cost(13, None, "Net.forward"))})
    line = lines((5, Phase.VALIDATION, 3.0), (5, Phase.OTHER, 1.0), (6, Phase.VALIDATION, 1.0))
    line = replace(line, lines=tuple(replace(one, at=replace(one.at, file=FILE)) for one in line.lines))
    (only,) = tensor_loop_facts(found, SOURCES, None, line, step(forward=1.0), None, looked_at()).lines
    assert only.share == pytest.approx(0.2 + 0.3)


@pytest.mark.parametrize(
    ("body", "counts"),
    [
        pytest.param("table[i, j] = math.sin(i / j)", True, id="fills-a-tensor"),
        pytest.param("table[i, j] = math.sin(table[i, j - 1])", False, id="reads-what-it-filled"),
        pytest.param("found.append(torch.norm(x[i] - x[j]))", True, id="fills-a-list"),
        pytest.param("found.append(torch.norm(found[-1] - x[j]))", False, id="reads-the-list"),
        pytest.param("total[j] += x[i, j]", True, id="adds-to-elements"),
        pytest.param("total = total - 2 * x[i, j] + 1", True, id="adds-several-terms"),
        pytest.param("total = total * x[i, j] + 1", False, id="a-recurrence-of-one-line"),
        pytest.param("total += total * x[i, j]", False, id="adds-what-it-reads"),
    ],
)
def test_what_turns_only_gather_in_does_not_make_them_depend_on_each_other(body, counts):
    text = f"def build(x):\n    for i in range(9):\n        for j in range(9):\n            {body}\n"
    sources = Sources(source_of(train=text))
    found = tensor_loop_facts(stacks(cost(4)), sources, None, None, step(forward=1.0), None, looked_at())
    assert (found is not None) is counts


DETECTOR = """\
def one(self, said, box):
    near = (said - box).abs().sum(-1)
    return near.clamp(max=1).mean()
def counted(self, said):
    self.count = self.count + 1
    return said.mean() * self.count
class Loss:
    def forward(self, saids, boxes):
        each = [self.one(said, box) for said, box in zip(saids, boxes)]
        for said, box in zip(saids, boxes):
            each.append(self.one(said, box))
        for said in saids:
            state = self.one(said, state)
        runs = [self.counted(said) for said in saids]
        parts = [self.head(said) for said in saids]
        total = self.one(each, runs)
        grown = self.one([said * 2 for said in saids], boxes)
        times = [part * 2 for part in self.one(saids, boxes)]
"""


def below(calling, *inner, beyond=(), seconds=0.4):
    """The time of stacks that pass these lines of the detector."""
    path = [Frame("forward", FILE, calling, Owner.USER)]
    path += [Frame(name, FILE, line, Owner.USER) for line, name in inner or ((2, "one"),)]
    return StackCost(Phase.FORWARD, tuple(path), tuple(beyond), 40, seconds)


def called(*costs, operators=1675, given=None):
    """What is found of a step of one second, in which a device runs so many operators."""
    window = WindowFacts("w", 4, True, (OperatorCost("aten::add", 1.0, operators),))
    every = StackCosts(100, costs, {}, frozenset())
    return tensor_loop_facts(
        StackFacts(100, "py-spy", {}),
        Sources(source_of(train=DETECTOR)),
        every,
        None,
        step(forward=600, backward=400),
        window,
        looked_at(),
        given,
    )


@pytest.mark.parametrize("number", [9, 11])
def test_functions_that_run_many_operators_count_for_the_line_whose_loop_calls_them(number):
    found = called(below(number), below(number, (3, "one"), seconds=0.1), given=device(host_late=0.5))
    (only,) = found.lines
    assert (only.at.line, only.share, only.samples) == (number, pytest.approx(0.5), 80)
    assert (found.in_forward, found.waited) == (pytest.approx(0.5), pytest.approx(0.5))


@pytest.mark.parametrize(
    "cost",
    [
        pytest.param(below(13), id="a-recurrence"),
        pytest.param(below(16), id="no-loop"),
        pytest.param(below(17), id="beside-a-comprehension"),
        pytest.param(below(18), id="what-a-comprehension-goes-through"),
        pytest.param(below(14, (6, "counted")), id="a-function-that-keeps-a-state"),
        pytest.param(
            below(15, (2, "one"), beyond=(Frame("Linear.forward", "torch.py", 1, Owner.TORCH),)), id="modules"
        ),
    ],
)
def test_calls_that_are_no_loop_of_small_operators_are_left_out(cost):
    assert called(cost) is None


def test_a_loop_of_few_turns_is_left_out():
    assert called(below(9), operators=100) is None


def test_a_comprehension_has_a_frame_of_its_own_in_older_pythons():
    (only,) = called(below(9, (9, "<listcomp>"), (2, "one"))).lines
    assert only.at.line == 9
