"""What counts as copying the same again, from step to step."""

from __future__ import annotations

import gc

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from perfdoctor.probe.looks.copies import ITEMS_ASKED, ITEMS_MAX, StepCopies, storages_of


def copied(function, *args, step, **kwargs):
    """Call as the mode does; whether that repeated the step before."""
    known = len(step.found)
    seen = step.before(function, args, kwargs)
    result = function(*args, **kwargs)
    if seen is not None:
        step.after(seen, result, 1_000)
    return result, len(step.found) > known


def two_steps():
    first = StepCopies(torch)
    return first, StepCopies(torch, first)


def test_a_tensor_is_the_same_through_any_view_of_all_of_it_and_after_a_change():
    weight, (first, second) = torch.nn.Parameter(torch.ones(10)), two_steps()
    assert not copied(torch.Tensor.clone, weight.data, step=first)[1]
    weight.data.add_(1)
    assert copied(torch.Tensor.clone, weight.detach(), step=second)[1]
    assert second.found[0].bytes == 40


def test_memory_that_was_freed_and_is_used_again_is_another_tensor():
    first, second = two_steps()
    for step in (first, second):
        batch = torch.zeros(100_000)
        assert not copied(torch.Tensor.double, batch, step=step)[1]
        del batch
        gc.collect()


def test_arrays_are_the_same_by_the_memory_that_they_view():
    array, (first, second) = np.ones((10, 4)), two_steps()
    copied(torch.tensor, array[:, :2], step=first)
    assert copied(torch.tensor, array[:, :2], step=second)[1]
    assert not copied(torch.tensor, array[:, 2:], step=second)[1]
    assert not copied(torch.tensor, array[[1, 2]], step=second)[1]


def test_half_of_a_list_is_not_most_of_it():
    kept, (first, second) = [torch.ones(8) for _ in range(4)], two_steps()
    copied(torch.cat, kept, step=first)
    assert not copied(torch.cat, [*kept[:2], torch.ones(16)], step=second)[1]
    assert copied(torch.cat, [*kept[:3], torch.ones(16)], step=second)[1]
    assert copied(torch.stack, step=second, tensors=kept)[1]


def test_of_a_long_list_the_middle_is_asked_for():
    kept, (first, second) = [torch.ones(1) for _ in range(3 * ITEMS_MAX)], two_steps()
    copied(torch.cat, kept, step=first)
    moved = [*kept[ITEMS_ASKED:], *(torch.ones(1) for _ in range(ITEMS_ASKED))]
    assert copied(torch.cat, moved, step=second)[1]


def test_what_a_copy_wrote_and_the_next_step_copies_is_the_same():
    first, second = two_steps()
    memory, _ = copied(torch.cat, [torch.ones(100), torch.ones(1)], step=first)
    assert copied(torch.cat, [memory[1:], torch.ones(1)], step=second)[1]


@pytest.mark.parametrize(
    ("function", "args"),
    [
        pytest.param(torch.Tensor.float, (torch.ones(4),), id="nothing-to-convert"),
        pytest.param(torch.as_tensor, (np.ones(4),), id="memory-that-is-shared"),
        pytest.param(torch.tensor, ([1.0, 2.0],), id="numbers"),
        pytest.param(torch.tensor, (3.0,), id="a-number"),
        pytest.param(torch.Tensor.clone, (torch.ones(0),), id="nothing"),
        pytest.param(torch.Tensor.clone, (torch.ones(4, requires_grad=True),), id="gets-gradients"),
        pytest.param(torch.Tensor.clone, (torch.eye(4).to_sparse(),), id="sparse"),
        pytest.param(torch.Tensor.clone, (torch.ones(4, device="meta"),), id="no-memory"),
        pytest.param(torch.Tensor.type, (torch.ones(4),), id="a-question"),
        pytest.param(torch.Tensor.add, (torch.ones(4), 1), id="arithmetic"),
    ],
)
def test_is_no_copy_of_the_same(function, args):
    first, second = two_steps()
    copied(function, *args, step=first)
    assert not copied(function, *args, step=second)[1]


def test_a_tensor_of_a_transform_has_no_memory_and_is_left_alone():
    data, (first, second) = torch.ones(3, 4), two_steps()
    for step in (first, second):
        torch.func.vmap(lambda row, step=step: copied(torch.Tensor.clone, row, step=step)[0])(data)
    assert second.found == []


@pytest.mark.parametrize(
    ("function", "given"),
    [
        pytest.param(torch.Tensor.clone, lambda net: net.weight.data, id="clone"),
        pytest.param(torch.Tensor.double, lambda net: net.weight.detach(), id="double"),
        pytest.param(torch.cat, lambda net: [p.data.view(-1) for p in net.parameters()], id="cat"),
    ],
)
def test_copies_of_what_an_optimizer_trains_are_of_weights(function, given):
    net, data = torch.nn.Linear(8, 8), torch.ones(8, 8)
    weights, _ = storages_of(torch, [torch.optim.SGD(net.parameters(), lr=0.1)])
    first = StepCopies(torch, None, weights)
    second = StepCopies(torch, first, weights)
    for step in (first, second):
        copied(function, given(net), step=step)
        copied(torch.Tensor.clone, data, step=step)
    assert [call.weights for call in second.found] == [True, False]


@pytest.mark.parametrize("set_to_none", [True, False])
def test_gradients_that_are_set_to_zero_lie_in_the_same_memory_and_are_told_from_weights(set_to_none):
    net = torch.nn.Linear(8, 8)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    net(torch.ones(2, 8)).sum().backward()
    step = None
    for _ in range(2):
        step = StepCopies(torch, step, *storages_of(torch, [optimizer]))
        optimizer.zero_grad(set_to_none=set_to_none)
        kept = torch.ones(64)  # may get the memory that was given back
        net(torch.ones(2, 8)).sum().backward()
        copied(torch.cat, [weight.grad.flatten() for weight in net.parameters()], step=step)
        copied(torch.Tensor.clone, net.weight.data, step=step)
    del kept
    shown = [(call.weights, call.gradients) for call in step.found]
    assert shown[-1] == (True, False)
    assert set_to_none or shown == [(False, True), (True, False)]


def test_a_copy_of_a_copy_of_weights_is_one_as_well_and_a_small_part_of_weights_is_none():
    net, (data, kept) = torch.nn.Linear(8, 8), (torch.ones(8, 8) for _ in range(2))
    weights, _ = storages_of(torch, [torch.optim.SGD(net.parameters(), lr=0.1)])
    first = StepCopies(torch, None, weights)
    clone, _ = copied(torch.Tensor.clone, net.weight.data, step=first)

    def again(step):
        copied(torch.Tensor.double, clone, step=step)
        copied(torch.cat, [net.weight.data, data, kept], step=step)

    again(first)
    second = StepCopies(torch, first, weights)
    again(second)
    assert [call.weights for call in second.found] == [True, False]


def test_parameters_that_are_written_without_gradients_count():
    source, target, (first, second) = torch.ones(4), torch.nn.Parameter(torch.ones(4)), two_steps()
    with torch.no_grad():
        copied(torch.Tensor.copy_, target, source, step=first)
        assert copied(torch.Tensor.copy_, target, source, step=second)[1]
