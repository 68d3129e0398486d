from __future__ import annotations

import pytest

from perfdoctor.facts.host.item_loops import item_loop_facts
from perfdoctor.facts.host.stack_costs import StackCost, StackCosts
from perfdoctor.facts.user_source.frames import Frame, Owner
from perfdoctor.facts.user_source.parse import Sources
from perfdoctor.model.measured import Phase
from perfdoctor.runs.types import RankRecords
from tests.support.facts import device, step
from tests.support.records import source_of

NET = """\
class Layer:
    def forward(self, x):
        return self.linear(x)
    def remembered(self, x):
        self.last = self.linear(x)
        return self.last
class Net:
    def forward(self, items):
        for item in items:
            h = self.embed(item)
            for layer in self.layers:
                h = layer(h)
            out.append(self.one(h))
        for a in items:
            for b in a:
                out.append(self.embed(b))
        return [self.one(item) for item in items]
"""
FILE = "/home/me/train.py"


def below(*numbers, seconds=0.2, phase=Phase.FORWARD):
    """The time of stacks that pass these lines, the outermost first."""
    path = tuple(Frame("forward", FILE, number, Owner.USER) for number in numbers)
    return StackCost(phase, path, (), 20, seconds)


def called(*numbers, turns=64, products=0, host=True, look=2):
    """Calls of modules in a look, by way of these lines, the innermost first."""
    return {
        "event": "module_turns", "look": look, "turns": turns, "calls": turns, "products": products,
        "host": host, "names": ["Linear"],
        "lines": [{"file": FILE, "line": number, "function": "forward"} for number in numbers],
    }  # fmt: skip


def loops(costs, *events, given=None):
    """What is found of a step of one second."""
    every = StackCosts(100, tuple(costs), {}, frozenset())
    rank = RankRecords(0, None, None, list(events))
    return item_loop_facts(step(forward=600, backward=400), Sources(source_of(train=NET)), every, rank, given)


def test_a_loop_that_feeds_items_has_the_time_of_all_that_its_turns_call():
    costs = [below(10), below(12, 3), below(16, seconds=0.1)]
    found = loops(costs, called(10), called(3, 12, products=10**7), called(3, 10, turns=9, look=1))
    (only,) = found.loops
    assert (only.at.line, only.at.text, only.turns) == (9, "for item in items:", 64)
    assert (only.share, only.in_forward, only.samples) == (pytest.approx(0.4), pytest.approx(0.4), 40)
    kept = (0.0005 / (0.0005 + 128 * 100e-6), 0.002 / (0.002 + 128 * 50e-6), 0.005 / (0.005 + 128 * 20e-6))
    assert (only.kept.low, only.kept.likely, only.kept.high) == pytest.approx(kept)
    assert (found.share, found.kept.likely, found.waited) == (
        pytest.approx(0.4),
        pytest.approx(kept[1]),
        None,
    )


def test_a_comprehension_counts_as_well():
    assert loops([below(17, 3)], called(3, 17)).loops[0].at.line == 17


@pytest.mark.parametrize(
    "event",
    [
        pytest.param(called(10, turns=15), id="few-turns"),
        pytest.param(called(3, 12), id="turns-of-a-loop-inside-only"),
        pytest.param(called(5, 10), id="a-module-that-remembers"),
        pytest.param(called(10, host=False), id="a-device-of-which-nothing-is-known"),
        pytest.param(called(3), id="no-loop"),
    ],
)
def test_other_calls_are_left_out(event):
    assert loops([below(10), below(12, 3), below(3)], event) is None


@pytest.mark.parametrize(
    ("number", "phase"),
    [
        pytest.param(9, Phase.DATA_WAIT, id="of-a-loader"),
        pytest.param(13, Phase.BACKWARD, id="in-a-function-that-trains"),
        pytest.param(13, Phase.OPTIMIZER, id="in-a-function-that-updates"),
    ],
)
def test_a_loop_over_batches_is_left_out(number, phase):
    assert loops([below(10), below(number, phase=phase)], called(10)) is None
    assert loops([below(10), below(16, phase=phase)], called(10)) is not None


def test_a_loop_without_any_time_is_left_out():
    assert loops([below(3)], called(10)) is None


def test_in_a_quick_loop_the_products_take_what_they_take_of_its_time():
    found = loops([below(10, seconds=0.004)], called(10, products=10**7))
    assert found.loops[0].kept.likely == pytest.approx(0.5)


def test_in_nested_loops_the_outermost_is_named_if_its_own_turns_are_known():
    assert loops([below(16)], called(16)) is None


def test_on_a_device_its_host_is_what_is_waited_for():
    found = loops([below(10)], called(10, products=int(1e12), host=False), given=device(host_late=0.5))
    assert (found.waited, found.kept.high) == (pytest.approx(0.5), 0.0)
