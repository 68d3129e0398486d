"""--zero-grad-none: gradients are dropped where the script sets them to zero."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import pytest

from tests.support.applying import applied

torch = pytest.importorskip("torch")
from torch import nn

STEPS = 50


def model() -> Any:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))


def losses(clear: Callable[[Any, Any], object]) -> list[float]:
    module = model()
    optimizer = torch.optim.Adam(module.parameters(), 1e-2, weight_decay=0.1)
    found = []
    for _ in range(STEPS):
        loss = module(torch.randn(8, 4)).square().mean()
        clear(optimizer, module)
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    return found


def with_gradients() -> Any:
    module = model()
    module(torch.ones(1, 4)).sum().backward()
    return module


@pytest.mark.parametrize(
    "clear",
    [
        pytest.param(lambda optimizer, module: optimizer.zero_grad(set_to_none=False), id="optimizer"),
        pytest.param(lambda optimizer, module: optimizer.zero_grad(False), id="by position"),
        pytest.param(lambda optimizer, module: module.zero_grad(set_to_none=False), id="module"),
    ],
)
def test_losses_are_the_same_to_the_last_bit(clear: Callable[[Any, Any], object]) -> None:
    original = losses(clear)
    with applied("zero_grad_none") as told:
        tweaked = losses(clear)
    assert tweaked == original
    (place,) = told.applied
    assert (place["was"], place["now"]) == (False, True)
    assert place["at"]["file"] == __file__


@pytest.mark.parametrize("tweaked", [True, False])
def test_gradients_are_gone_instead_of_zero(tweaked: bool) -> None:
    module = with_gradients()
    with applied("zero_grad_none") if tweaked else nullcontext():
        module.zero_grad(set_to_none=False)
    assert [p.grad is None for p in module.parameters()] == [tweaked] * 4


def test_a_call_that_drops_them_already_is_no_place() -> None:
    module = with_gradients()
    with applied("zero_grad_none") as told:
        module.zero_grad()
        torch.optim.SGD(module.parameters(), 0.1).zero_grad(set_to_none=True)
    assert not told.events


def test_gradients_that_a_cuda_graph_writes_into_stay_in_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda.CUDAGraph, "capture_begin", lambda self: None)
    module = with_gradients()
    with applied("zero_grad_none") as told:
        torch.cuda.CUDAGraph.capture_begin(None)
        module.zero_grad(set_to_none=False)
    assert all(torch.equal(p.grad, torch.zeros_like(p)) for p in module.parameters())
    assert not told.applied
    assert "CUDA graph" in told.left_alone[0]["because"]


def test_a_parameter_without_a_gradient_is_skipped_and_not_moved_by_momentum() -> None:
    def moved(place: Any) -> float:
        parameter = nn.Parameter(torch.ones(()))
        optimizer = torch.optim.SGD([parameter], 0.1, momentum=0.9)
        with place:
            parameter.sum().backward()
            optimizer.step()
            optimizer.zero_grad(set_to_none=False)
            before = parameter.item()
            optimizer.step()
        return parameter.item() - before

    assert moved(nullcontext()) == pytest.approx(-0.09)
    assert moved(applied("zero_grad_none")) == 0
