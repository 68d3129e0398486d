from __future__ import annotations

from dataclasses import replace
from textwrap import dedent

import pytest

from perfdoctor.facts.host.distribution_checks import distribution_check_facts
from perfdoctor.facts.host.stack_costs import stack_costs
from perfdoctor.facts.user_source.parse import Sources
from perfdoctor.model.missing import Missing
from perfdoctor.runs.types import RankRecords
from tests.facts.host.test_stacks import TORCH, at, stack, wrapper
from tests.support.facts import device, step
from tests.support.records import source_of

SCRIPT = dedent(
    """\
    for episode in range(100):
        while playing:
            policy = Categorical(model(state))
            action = policy.sample()
            chances.append(policy.log_prob(action))
            state = world.step(action.item())
        loss = -torch.stack(chances).sum()
        loss.backward()
        optimizer.step()
    """
)
STEP = step(forward=40, backward=20, optimizer=10, other=30)
MAKES = f"Categorical.__init__ ({TORCH}/distributions/categorical.py:78)"
CHECKS = f"Distribution.__init__ ({TORCH}/distributions/distribution.py:71)"
SIMPLEX = f"_Simplex.check ({TORCH}/distributions/constraints.py:476)"
CHANCE = f"Categorical.log_prob ({TORCH}/distributions/categorical.py:150)"
SUPPORT = f"Distribution._validate_sample ({TORCH}/distributions/distribution.py:322)"
DRAWS = f"Categorical.sample ({TORCH}/distributions/categorical.py:143)"
TRAINING = (
    stack(at(3), wrapper("module_call"), f"Linear.forward ({TORCH}/nn/modules/linear.py:9)", count=40),
    stack(at(8), f"backward ({TORCH}/_tensor.py:3)", wrapper("backward"), count=20),
    stack(at(9), wrapper("optimizer"), f"SGD.step ({TORCH}/optim/sgd.py:7)", count=10),
)


def facts(*stacks, of_device=None, of_step=STEP):
    sources = Sources(source_of(train=SCRIPT))
    rank = RankRecords(0, None, None, (), (*TRAINING, *stacks), "py-spy")
    costs = stack_costs(rank, of_step, sources)
    return distribution_check_facts(costs, of_step, sources, of_device)


def test_checks_of_arguments_and_of_values_count_for_the_line_that_makes_them():
    found = facts(
        stack(at(3), MAKES, CHECKS, SIMPLEX, count=12),
        stack(at(3), MAKES, CHECKS, count=6),
        stack(at(5), CHANCE, SUPPORT, count=6),
        stack(at(4), DRAWS, count=6),
    )
    assert [(line.at.line, line.at.text, line.samples) for line in found.lines] == [
        (3, "policy = Categorical(model(state))", 18),
        (5, "chances.append(policy.log_prob(action))", 6),
    ]
    assert found.lines[0].share == pytest.approx(0.18)
    assert found.share == pytest.approx(0.24)
    assert found.samples == 24
    assert found.waited is None


def test_lines_that_make_distributions_come_first_since_they_tell_whether_to_check():
    found = facts(stack(at(3), MAKES, CHECKS, count=5), stack(at(5), CHANCE, SUPPORT, count=25))
    assert [line.at.line for line in found.lines] == [3, 5]


def test_the_arithmetic_of_a_distribution_is_no_check():
    assert facts(stack(at(3), MAKES, count=20), stack(at(5), CHANCE, count=5), stack(at(4), DRAWS)) is None


def test_a_line_that_a_torn_sample_puts_checks_at_is_not_named():
    found = facts(stack(at(3), MAKES, CHECKS, count=29), stack(at(4), DRAWS, CHECKS, count=1))
    assert [line.at.line for line in found.lines] == [3]


def test_a_constructor_of_the_scripts_own_that_is_called_likewise_is_no_check():
    own = "Distribution.__init__ (/home/me/project/distributions/distribution.py:71)"
    other = "Distribution.__init__ (/home/me/.venv/lib/python3.11/site-packages/pyro/distributions/distribution.py:9)"
    assert facts(stack(at(3), own, count=20), stack(at(3), other, count=20)) is None


def test_checks_inside_the_model_count_too():
    inside = stack(at(3), wrapper("module_call"), at(9, "Net.forward"), MAKES, CHECKS, count=40)
    assert facts(inside).share == pytest.approx(0.2)


def test_a_device_says_how_long_it_waits_for_its_host():
    idles = device(sync=0.25)
    assert facts(stack(at(3), MAKES, CHECKS), of_device=idles).waited == pytest.approx(0.25)
    assert facts(stack(at(3), MAKES, CHECKS), of_device=Missing("no window")).waited is None


def test_a_step_without_time_has_no_shares():
    found = facts(stack(at(3), MAKES, CHECKS), of_step=replace(STEP, mean_s=0.0))
    assert found is None
