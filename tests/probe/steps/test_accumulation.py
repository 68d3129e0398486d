import gc

import pytest

torch = pytest.importorskip("torch")

from perfdoctor.probe.steps.accumulation import AccumulationDetector, find_leaf


@pytest.fixture
def seen():
    """A weight, and a judge that has seen one backward through it."""
    weight = torch.ones(3, requires_grad=True)
    detector = AccumulationDetector()
    loss = (weight * 2).sum()
    assert detector.is_fresh(loss)
    loss.backward()
    detector.remember()
    return weight, detector


def test_gradients_that_are_kept_are_being_accumulated(seen):
    weight, detector = seen
    assert not detector.is_fresh((weight * 2).sum())


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
    weight, detector = seen
    change(weight)
    assert detector.is_fresh((weight * 2).sum())


def test_a_parameter_that_was_replaced_begins_a_new_step():
    detector = AccumulationDetector()
    for _ in range(3):
        weight = torch.ones(3, requires_grad=True)
        assert detector.is_fresh((weight * 2).sum())
        detector.remember()
        del weight
        gc.collect()


def test_a_loss_without_a_graph_is_no_error():
    detector = AccumulationDetector()
    assert detector.is_fresh(torch.ones(1))
    assert detector.is_fresh(None)
    detector.remember()


def test_what_a_function_of_the_scripts_keeps_as_its_variable_is_no_leaf():
    class Doubled(torch.autograd.Function):
        @staticmethod
        def forward(ctx, value):
            ctx.variable = 3
            return value * 2

        @staticmethod
        def backward(ctx, gradient):
            return gradient * 2

    weight = torch.ones(3, requires_grad=True)
    assert find_leaf(Doubled.apply(weight).sum()) is weight
