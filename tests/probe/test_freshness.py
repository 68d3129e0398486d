import gc

import pytest

torch = pytest.importorskip("torch")

from perfdoctor.probe.freshness import Freshness


@pytest.fixture
def seen():
    """A weight, and a judge that has seen one backward through it."""
    weight = torch.ones(3, requires_grad=True)
    freshness = Freshness()
    loss = (weight * 2).sum()
    assert freshness.judge(loss)
    loss.backward()
    freshness.remember()
    return weight, freshness


def test_gradients_that_are_kept_are_being_accumulated(seen):
    weight, freshness = seen
    assert not freshness.judge((weight * 2).sum())


def clear(weight):
    weight.grad = None


def zero(weight):
    weight.grad.zero_()


def update(weight):
    with torch.no_grad():
        weight -= 0.1 * weight.grad


def clip(weight):
    weight.grad.mul_(0.5)


@pytest.mark.parametrize("change", [clear, zero, update, clip])
def test_cleared_gradients_or_changed_parameters_begin_a_new_step(seen, change):
    weight, freshness = seen
    change(weight)
    assert freshness.judge((weight * 2).sum())


def test_a_parameter_that_was_replaced_begins_a_new_step():
    freshness = Freshness()
    for _ in range(3):
        weight = torch.ones(3, requires_grad=True)
        assert freshness.judge((weight * 2).sum())
        freshness.remember()
        del weight
        gc.collect()


def test_a_loss_without_a_graph_is_no_error():
    freshness = Freshness()
    assert freshness.judge(torch.ones(1))
    assert freshness.judge(None)
    freshness.remember()
