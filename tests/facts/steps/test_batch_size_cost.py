from __future__ import annotations

import pytest

from perfdoctor.facts.steps import boundaries
from perfdoctor.facts.steps.batch_size_cost import batch_size_facts
from perfdoctor.model.measured import OperatorCost, WindowFacts
from tests.support.records import backward, rows, update


def seen(described):
    found = boundaries.find(rows(described))
    assert found is not None
    return found


def one(samples, fixed=6.0, each=0.5):
    """A step that takes `fixed` ms, and `each` ms for each sample."""
    half = (fixed + each * samples) / 2
    return update(2 * half + 2, samples=samples, forward=half, backward=half, data_wait=2)


def window(calls, on_device=False):
    return WindowFacts("w", 3, on_device, (OperatorCost("aten::mm", 1.0, calls),))


def test_smaller_batches_tell_what_a_step_costs_without_any():
    facts = batch_size_facts(seen([one(8)] * 40 + [one(2)] * 4), None)
    assert facts.samples == 8
    low, likely, high = facts.fixed
    assert likely == pytest.approx(6 / 12, rel=0.05)  # of 12 ms a step, 10 of them computing
    assert low < likely < high
    assert facts.because == "8 samples take 10.00 ms to compute and to learn from, 2 still take 7.00 ms"


@pytest.mark.parametrize(
    "described",
    [
        pytest.param([one(8)] * 40, id="all-alike"),
        pytest.param([one(8)] * 40 + [one(2)] * 2, id="too-few-smaller-ones"),
        pytest.param([one(8)] * 40 + [one(5)] * 9, id="not-small-enough"),
        pytest.param([update(5, forward=5)] * 40, id="samples-unknown"),
        pytest.param([backward(5, samples=8)] * 40, id="no-optimizer"),
    ],
)
def test_tells_nothing_without_a_window(described):
    assert batch_size_facts(seen(described), None) is None


def test_cost_that_grows_with_the_batch_leaves_nothing_fixed():
    facts = batch_size_facts(seen([one(8, fixed=0)] * 40 + [one(2, fixed=0)] * 4), None)
    assert facts.fixed[1] == pytest.approx(0.0, abs=1e-6)


def test_many_operators_cost_their_calls():
    facts = batch_size_facts(seen([one(8)] * 40), window(8_000))
    assert facts.fixed == pytest.approx((10 / 12 * 0.32, 10 / 12 * 0.64, 10 / 12))
    assert facts.because.startswith("8,000 operators per step take 1.2 µs each")


def test_few_operators_are_no_cost():
    assert batch_size_facts(seen([one(8)] * 40), window(10)).fixed[1] == pytest.approx(10 / 12 * 0.0008)


def test_a_device_computes_behind_the_hosts_back():
    assert batch_size_facts(seen([one(8)] * 40), window(1_000, on_device=True)) is None
