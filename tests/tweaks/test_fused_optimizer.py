"""--fused-optimizer: an optimizer updates all its tensors in one pass."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from tests.support.applying import applied

torch = pytest.importorskip("torch")
from torch import nn, optim

STEPS = 50
Build = Callable[[Any], Any]


class Own(optim.Adam):
    """An optimizer with a step of its own."""

    def step(self, closure: Any = None) -> Any:
        return super().step(closure)


class Named(optim.Adam):
    """Only the name is its own."""


def model() -> Any:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))


def losses(build: Build, optimizers: list[Any] | None = None, closure: bool = False) -> list[float]:
    module = model()
    optimizer = build(module.parameters())
    if optimizers is not None:
        optimizers.append(optimizer)
    found = []
    for _ in range(STEPS):
        batch = torch.randn(8, 4)

        def passes(batch: Any = batch) -> Any:
            optimizer.zero_grad()
            loss = (module(batch) - batch.sum(1, keepdim=True)).square().mean()
            loss.backward()
            return loss

        if closure:
            found.append(optimizer.step(passes).item())
        else:
            found.append(passes().item())
            optimizer.step()
    return found


def stepped(optimizer: Any, *gradients: Any) -> None:
    """One update with these gradients of its parameters, in their order; None for none."""
    for parameter, gradient in zip(optimizer.param_groups[0]["params"], gradients, strict=True):
        parameter.grad = gradient
    optimizer.step()


@pytest.mark.parametrize("closure", [False, True])
@pytest.mark.parametrize(
    "build",
    [
        pytest.param(lambda p: optim.Adam(p, 1e-2, amsgrad=True), id="Adam"),
        pytest.param(lambda p: optim.AdamW(p, 1e-2, foreach=False), id="AdamW, foreach=False"),
        pytest.param(lambda p: optim.SGD(p, 1e-2, momentum=0.9, nesterov=True), id="SGD"),
        pytest.param(lambda p: optim.Adagrad(p, 1e-2), id="Adagrad"),
        pytest.param(lambda p: Named(p, 1e-2, fused=False), id="subclass, fused=False"),
    ],
)
def test_it_is_fused_and_losses_agree_within_rounding(build: Build, closure: bool) -> None:
    original = losses(build, closure=closure)
    optimizers: list[Any] = []
    with applied("fused_optimizer") as told:
        tweaked = losses(build, optimizers, closure)
    assert tweaked == pytest.approx(original, rel=1e-5)
    (group,) = optimizers[0].param_groups
    assert (group["fused"], group["foreach"]) == (True, None)
    (place,) = told.applied
    assert (place["was"], place["now"]) == ("for-loop", "fused")
    assert place["at"]["function"] == "<lambda>"


def test_one_without_a_fused_way_goes_over_small_tensors_together() -> None:
    def build(parameters: Any) -> Any:
        return optim.NAdam(parameters, 1e-3)

    original = losses(build)
    with applied("fused_optimizer") as told:
        tweaked = losses(build)
    assert tweaked == pytest.approx(original, rel=1e-5)
    assert told.applied[0]["now"] == "foreach"


def test_large_tensors_stay_in_the_cache_one_by_one() -> None:
    with applied("fused_optimizer") as told:
        parameter = nn.Parameter(torch.ones(2**16 + 1))
        stepped(optim.NAdam([parameter]), torch.ones(2**16 + 1))
    assert told.left_alone[0]["because"] == "torch has no faster implementation for its tensors"


@pytest.mark.parametrize(
    ("build", "because"),
    [
        (lambda p: optim.Adam(p, fused=True), "it is already fused"),
        (lambda p: Own(p), "it has its own step"),
        (lambda p: optim.LBFGS(p), "torch has only one implementation for it"),
        (lambda p: optim.SGD(p, torch.tensor(0.1)), "its learning rate is a tensor"),
        (lambda p: optim.Adam(p, capturable=True, foreach=False), "it is capturable"),
    ],
)
def test_others_are_left_alone_and_that_is_said(build: Build, because: str) -> None:
    with applied("fused_optimizer") as told:
        optimizer = build([nn.Parameter(torch.ones(2))])
        settings = copy.deepcopy({**optimizer.param_groups[0], "params": None})
        optimizer.param_groups[0]["params"][0].grad = torch.ones(2)
        if because != "it is capturable":  # which no CPU is
            optimizer.step(lambda: torch.zeros(()))
        else:
            for hook in optimizer._optimizer_step_pre_hooks.values():
                hook(optimizer, (), {})
        assert {**optimizer.param_groups[0], "params": None} == settings
    assert not told.applied
    assert told.left_alone[0]["because"] == because


@pytest.mark.parametrize("kind", [optim.SGD, optim.Adagrad])
def test_sparse_gradients_are_left_alone(kind: Any) -> None:
    with applied("fused_optimizer") as told:
        table = nn.Embedding(4, 2, sparse=True)
        table(torch.tensor([1])).sum().backward()
        kind(table.parameters(), 0.1).step()
    assert not told.applied
    assert told.left_alone[0]["because"] == "its gradients are sparse"


def test_a_sparse_gradient_that_comes_later_is_taken_as_before() -> None:
    with applied("fused_optimizer") as told:
        first, table = nn.Parameter(torch.ones(2)), nn.Embedding(4, 2, sparse=True)
        optimizer = optim.SGD([first, table.weight], 0.1)
        stepped(optimizer, torch.ones(2), None)
        assert optimizer.param_groups[0]["fused"]
        table(torch.tensor([1])).sum().backward()
        optimizer.step()
        assert not optimizer.param_groups[0]["fused"]
    assert told.withdrawn[0]["because"] == "a sparse gradient came later"


def test_a_first_gradient_that_comes_later_is_no_error_with_momentum() -> None:
    def weights(tweaked: bool) -> list[float]:
        parameters = [nn.Parameter(torch.ones(())), nn.Parameter(torch.ones(()))]
        optimizer = optim.SGD(parameters, 0.1, momentum=0.9)
        one = torch.ones(())
        stepped(optimizer, one, None)
        assert bool(optimizer.param_groups[0]["fused"]) is tweaked
        stepped(optimizer, one, one)
        stepped(optimizer, one, one)
        return [parameter.item() for parameter in parameters]

    original = weights(tweaked=False)
    with applied("fused_optimizer") as told:
        assert weights(tweaked=True) == pytest.approx(original)
    assert told.withdrawn[0]["because"] == "a parameter had its first gradient later than others"


def test_without_momentum_it_stays_fused_then() -> None:
    with applied("fused_optimizer") as told:
        optimizer = optim.SGD([nn.Parameter(torch.ones(())), nn.Parameter(torch.ones(()))], 0.1)
        one = torch.ones(())
        stepped(optimizer, one, None)
        stepped(optimizer, one, one)
        assert optimizer.param_groups[0]["fused"]
    assert not told.left_alone


def test_groups_that_are_added_later_are_fused_too() -> None:
    with applied("fused_optimizer"):
        optimizer = optim.Adam([nn.Parameter(torch.ones(2))])
        stepped(optimizer, torch.ones(2))
        optimizer.add_param_group({"params": [nn.Parameter(torch.ones(2))]})
        assert optimizer.param_groups[1]["fused"]


def test_state_has_the_same_names_and_can_be_loaded_by_the_script_as_it_is() -> None:
    original, tweaked = [], []
    losses(lambda p: optim.Adam(p, 1e-2), original)
    with applied("fused_optimizer"):
        losses(lambda p: optim.Adam(p, 1e-2), tweaked)
    before, after = original[0].state_dict(), tweaked[0].state_dict()
    assert list(after["param_groups"][0]) == list(before["param_groups"][0])
    assert [list(state) for state in after["state"].values()] == [
        list(state) for state in before["state"].values()
    ]
    original[0].load_state_dict(after)
    original[0].step()


def test_state_that_was_loaded_goes_on() -> None:
    made: list[Any] = []
    losses(lambda p: optim.Adam(p, 1e-2), made)
    with applied("fused_optimizer") as told:
        optimizer = optim.Adam(model().parameters(), 1e-2)
        optimizer.load_state_dict(made[0].state_dict())
        stepped(optimizer, *(torch.ones_like(p) for p in optimizer.param_groups[0]["params"]))
        assert optimizer.state[optimizer.param_groups[0]["params"][0]]["step"] == STEPS + 1
    assert told.applied


def test_it_stays_fused_where_a_state_of_before_is_loaded_while_it_trains() -> None:
    def weights() -> list[float]:
        parameter = nn.Parameter(torch.ones(2))
        optimizer = optim.Adam([parameter], 0.1)
        before = copy.deepcopy(optimizer.state_dict())
        stepped(optimizer, torch.ones(2))
        optimizer.load_state_dict(before)
        stepped(optimizer, -torch.ones(2))
        made.append(optimizer)
        return list(parameter.tolist())

    made: list[Any] = []
    original = weights()
    with applied("fused_optimizer") as told:
        assert weights() == pytest.approx(original)
    assert made[1].param_groups[0]["fused"]
    assert not told.withdrawn


@pytest.mark.parametrize("late", [False, True])
def test_gradients_are_unscaled_in_the_step_as_where_the_script_asks_for_fused(late: bool) -> None:
    def weights(tweaked: bool) -> list[float]:
        parameters = [nn.Parameter(torch.ones(())), nn.Parameter(torch.ones(()))]
        optimizer = optim.SGD(parameters, 0.1, momentum=0.9)
        scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
        for number in range(3):
            optimizer.zero_grad()
            used = parameters[:1] if late and not number else parameters
            scaler.scale(sum(used) * 1.0).backward()
            scaler.step(optimizer)
            scaler.update()
        assert getattr(optimizer, "_step_supports_amp_scaling", False) is (tweaked and not late)
        return [parameter.item() for parameter in parameters]

    original = weights(tweaked=False)
    with applied("fused_optimizer") as told:
        assert weights(tweaked=True) == pytest.approx(original)
    assert bool(told.withdrawn) is late


def test_gradients_made_inside_the_step_must_all_have_come() -> None:
    parameters = [nn.Parameter(torch.ones(())), nn.Parameter(torch.ones(()))]
    with applied("fused_optimizer") as told:
        optimizer = optim.SGD(parameters, 0.1, momentum=0.9)

        def closure() -> Any:
            loss = parameters[0] * 2
            loss.backward()
            return loss

        optimizer.step(closure)
        optimizer.step(closure)
    assert told.left_alone[0]["because"].startswith("its gradients are computed inside the step")
