from __future__ import annotations

from dataclasses import replace

import pytest

from perfdoctor.facts.host.step_lines import step_lines
from perfdoctor.facts.user_source.parse import Sources
from perfdoctor.model.measured import Location, OperatorCost, Phase, WindowFacts
from tests.facts.host import test_stack_costs as stacks
from tests.facts.host.test_stacks import TORCH, TRAIN, at, stack, wrapper
from tests.support import rank_traces
from tests.support.facts import copies
from tests.support.records import source_of

SCRIPT = stacks.SCRIPT.replace("return slow(loss)", "return loss.sort()").replace(
    "return self.rows[index]", "return random.random() * sum(self.rows)"
)
SITE = "/home/me/.venv/lib/python3.11/site-packages"


def facts(*given, operators=(), copies=None):
    window = WindowFacts("w.json", 4, False, tuple(OperatorCost(name, 0.1, 1.0) for name in operators))
    costs = stacks.facts(*stacks.TRAINING, *given)
    return step_lines(costs, stacks.STEP, window, copies, Sources(source_of(train=SCRIPT)))


def line(found, number, phase=Phase.OTHER):
    (one,) = [one for one in found.lines if one.at.line == number and one.phase is phase]
    return one


def test_a_line_has_its_own_time_and_that_of_the_users_functions_that_it_calls():
    found = facts(stack(at(8), at(10, "look"), count=15), stack(at(8), count=5))
    assert (line(found, 8).self_s, line(found, 8).total_s) == pytest.approx((0.0025, 0.010))
    assert (line(found, 10).self_s, line(found, 10).total_s) == pytest.approx((0.0075, 0.0075))
    assert line(found, 10).at.text == "return loss.sort()"


def test_the_lines_and_the_rest_are_the_whole_step_costliest_first():
    found = facts(stack(at(8)))
    assert sum(one.self_s for one in found.lines) + found.unseen == pytest.approx(stacks.STEP.mean_s)
    costs = [one.self_s for one in found.lines]
    assert costs == sorted(costs, reverse=True)


@pytest.mark.parametrize(
    ("beyond", "name"),
    [
        (
            (f"sort ({SITE}/numpy/core/fromnumeric.py:9)", f"_wrapfunc ({SITE}/numpy/core/x.py:9)"),
            "numpy sort",
        ),
        (("dumps (/usr/lib/python3.11/json/__init__.py:9)",), "json dumps"),
        ((f"inner ({TORCH}/_compile.py:9)", f"Optimizer.zero_grad ({TORCH}/optim/optimizer.py:9)"), None),
    ],
)
def test_says_which_library_function_a_line_runs(beyond, name):
    assert line(facts(stack(at(8), *beyond)), 8).runs == ((name,) if name else ())


def test_of_layers_the_innermost_is_named():
    found = facts(
        stack(
            at(2),
            wrapper("module_call"),
            f"Module._call_impl ({TORCH}/nn/modules/module.py:9)",
            f"Block.forward ({TORCH}/nn/modules/block.py:9)",
            f"Conv2d.forward ({TORCH}/nn/modules/conv.py:9)",
            count=100,
        )
    )
    assert line(found, 2, Phase.FORWARD).runs == ("torch Conv2d.forward", "torch Linear.forward")


def test_an_operator_of_the_window_that_a_line_calls_is_named():
    names = ("aten::mm", "aten::sort")
    assert line(facts(stack(at(8), at(10, "look")), operators=names), 10).runs == ("aten::sort",)


def test_copies_to_the_device_are_told_by_their_size():
    made = replace(rank_traces.site(ms=2, idle=2), at=Location(TRAIN, 8), bytes=24_000_000, count=2)
    assert line(facts(stack(at(8)), copies=copies(sites=(made,))), 8).runs == (
        "copies of 12 MB to the device",
    )


def test_a_builtin_of_the_same_name_is_no_operator():
    found = facts(stack(at(8), at(13, "draw")), operators=("aten::sum", "aten::random_"))
    assert line(found, 13).runs == ()
