import gc

import pytest

torch = pytest.importorskip("torch")

from perfdoctor.probe.steps.accumulation import AccumulationDetector, find_leaf


@pytest.fixture
def seen():
    """A weight, and a judge that has seen one backward through it."""
    weight = torch.ones(3, requires_grad=True)
    detector = AccumulationDetector(torch)
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


def update_by_data(weight):
    weight.data -= 0.1 * weight.grad.data


def assign_by_data(weight):
    weight.data = weight.data * 2


def zero_by_data(weight):
    weight.grad.data.zero_()


@pytest.mark.parametrize("change", [clear, zero, update, clip, update_by_data, assign_by_data, zero_by_data])
def test_cleared_gradients_or_changed_parameters_begin_a_new_step(seen, change):
    weight, detector = seen
    change(weight)
    assert detector.is_fresh((weight * 2).sum())


def test_gradients_of_values_that_are_no_numbers_are_being_accumulated_all_the_same():
    weight = torch.full((3,), float("nan"), requires_grad=True)
    detector = AccumulationDetector(torch)
    for fresh in (True, False, False):
        loss = (weight * 2).sum()
        assert detector.is_fresh(loss) is fresh
        loss.backward()
        detector.remember()


def test_values_of_many_under_a_transform_are_not_read(monkeypatch):
    detector, original, seen = AccumulationDetector(torch), torch.autograd.grad, []

    def watched(outputs, *args, **kwargs):
        seen.append(detector.is_fresh(outputs))
        result = original(outputs, *args, **kwargs)
        detector.remember()
        return result

    monkeypatch.setattr(torch.autograd, "grad", watched)
    derive = torch.func.vmap(torch.func.grad(lambda weight: (weight * weight).sum()))
    assert derive(torch.ones(4, 3)).tolist() == [[2.0] * 3] * 4
    assert seen


def test_values_of_a_parameter_whose_memory_was_freed_are_not_read():
    weight = torch.ones(3, requires_grad=True)
    detector = AccumulationDetector(torch)
    loss = (weight + 1).sum()
    assert detector.is_fresh(loss)
    weight.untyped_storage().resize_(0)
    detector.remember()
    assert not detector.is_fresh(loss)


@pytest.mark.parametrize("sparse", [False, True])
def test_of_parameters_whose_values_are_not_read_versions_tell(sparse):
    weight = torch.ones(3, 2).t().requires_grad_()
    detector = AccumulationDetector(torch)
    for fresh in (True, False, False):
        rows = weight.sum() if not sparse else torch.embedding(weight, torch.tensor([1]), sparse=True).sum()
        assert detector.is_fresh(rows) is fresh
        rows.backward()
        detector.remember()


def test_a_parameter_that_was_replaced_begins_a_new_step():
    detector = AccumulationDetector(torch)
    for _ in range(3):
        weight = torch.ones(3, requires_grad=True)
        assert detector.is_fresh((weight * 2).sum())
        detector.remember()
        del weight
        gc.collect()


def test_a_loss_without_a_graph_is_no_error():
    detector = AccumulationDetector(torch)
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
