"""--accumulate N: one update for N batches."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

import perfdoctor
from tests.support.applying import applied, ran

torch = pytest.importorskip("torch")
from torch import nn, optim
from torch.nn import utils

pytestmark = pytest.mark.process

OURS = Path(perfdoctor.__file__).parent
N = 4
CALLS = 1 + 5 * N  # the first call updates at once
KINDS = (optim.Adam, optim.SGD, optim.LBFGS)
Train = Callable[[Any, Any, Any], Any]  # model, optimizer, batch -> the loss


class Sharp(optim.SGD):
    """Somebody's own, which may call its closure as often as it likes."""


def batches() -> list[Any]:
    generator = torch.Generator().manual_seed(1)
    return [torch.randn(8, 4, generator=generator) for _ in range(CALLS)]


def model() -> Any:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))


def loss_of(module: Any, batch: Any) -> Any:
    return (module(batch) - batch.sum(1, keepdim=True)).square().mean()


def clear_first(module: Any, optimizer: Any, batch: Any) -> Any:
    optimizer.zero_grad()
    loss = loss_of(module, batch)
    loss.backward()
    optimizer.step()
    return loss


def clear_last(module: Any, optimizer: Any, batch: Any) -> Any:
    loss = loss_of(module, batch)
    loss.backward()
    optimizer.step()
    module.zero_grad(set_to_none=False)
    return loss


def in_parts(module: Any, optimizer: Any, batch: Any) -> Any:
    optimizer.zero_grad()
    for part in batch.chunk(2):
        loss = loss_of(module, part) / 2
        torch.autograd.backward([loss], [torch.ones(())], inputs=list(module.parameters()))
    optimizer.step()
    return loss


def clipped(module: Any, optimizer: Any, batch: Any) -> Any:
    optimizer.zero_grad()
    loss = loss_of(module, batch)
    loss.backward()
    utils.clip_grad_norm_(module.parameters(), max_norm=0.1)
    utils.clip_grad_value_(module.parameters(), 0.01)
    optimizer.step()
    return loss


def by_closure(module: Any, optimizer: Any, batch: Any) -> Any:
    def closure() -> Any:
        optimizer.zero_grad()
        loss = loss_of(module, batch)
        loss.backward()
        return loss

    return optimizer.step(closure)


def scripted(train: Train, kind: Any = optim.Adam) -> tuple[list[float], list[float]]:
    """Losses of a script, and the weights it ends with."""
    module = model()
    optimizer = kind(module.parameters(), 1e-2)
    losses = [train(module, optimizer, batch).item() for batch in batches()]
    return losses, weights(module)


def by_hand(parts: int = 1, clips: bool = False) -> tuple[list[float], list[float]]:
    """The same with accumulation in the script."""
    module = model()
    optimizer = optim.Adam(module.parameters(), 1e-2)
    losses = []
    for number, batch in enumerate(batches()):
        share = N if number else 1
        for part in batch.chunk(parts):
            loss = loss_of(module, part) / parts
            (loss / share).backward()
        losses.append(loss.item())
        if number % N == 0:
            if clips:
                utils.clip_grad_norm_(module.parameters(), 0.1)
                utils.clip_grad_value_(module.parameters(), 0.01)
            optimizer.step()
            optimizer.zero_grad()
    return losses, weights(module)


def weights(module: Any) -> list[float]:
    return torch.cat([p.detach().flatten() for p in module.parameters()]).tolist()


@pytest.mark.parametrize(
    ("train", "options"),
    [
        (clear_first, {}),
        (clear_last, {}),
        (in_parts, {"parts": 2}),
        (clipped, {"clips": True}),
        (by_closure, {}),
    ],
)
def test_it_is_what_accumulating_by_hand_is(train: Train, options: dict[str, Any]) -> None:
    expected_losses, expected_ends = by_hand(**options)
    with applied("accumulate", N) as told:
        losses, ends = scripted(train)
    assert losses == pytest.approx(expected_losses, rel=1e-5)
    assert ends == pytest.approx(expected_ends, rel=1e-4, abs=1e-6)
    (place,) = told.applied
    assert (place["was"], place["now"]) == ("each call updates", "one in 4 calls")
    assert place["at"]["function"] == train.__name__


def test_the_path_is_another_one() -> None:
    original = scripted(clear_first)
    with applied("accumulate", N):
        tweaked = scripted(clear_first)
    assert tweaked[0][:2] == original[0][:2]
    assert tweaked[0] != original[0]


def test_only_updates_call_the_hooks_of_steps_and_schedules_go_on() -> None:
    updates: list[Any] = []
    with applied("accumulate", N):
        module = model()
        optimizer = optim.SGD(module.parameters(), 1.0)
        schedule = optim.lr_scheduler.ExponentialLR(optimizer, 0.5)
        optimizer.register_step_post_hook(lambda *_: updates.append(optimizer.param_groups[0]["lr"]))
        for batch in batches()[: N + 1]:
            clear_first(module, optimizer, batch)
            schedule.step()
    assert updates == [1.0, 0.5**N]


def test_the_norm_that_clipping_measures_is_that_of_the_gradients_so_far() -> None:
    with applied("accumulate", N):
        module = model()
        optimizer = optim.Adam(module.parameters())
        clear_first(module, optimizer, batches()[0])
        loss_of(module, batches()[1]).backward()
        before = [p.grad.clone() for p in module.parameters()]
        norm = utils.clip_grad_norm_(module.parameters(), 1e-9)
        assert norm > 1e-9
        assert all(torch.equal(p.grad, was) for p, was in zip(module.parameters(), before, strict=True))


def test_gradients_that_are_taken_for_other_things_are_not_scaled() -> None:
    with applied("accumulate", N):
        module = model()
        optimizer = optim.Adam(module.parameters())
        clear_first(module, optimizer, batches()[0])
        images = torch.ones(1, 4, requires_grad=True)
        (images * 2).sum().backward(inputs=[images])
        assert images.grad.tolist() == [[2.0] * 4]
        (slope,) = torch.autograd.grad((images * 2).sum(), images)
        assert slope.tolist() == [[2.0] * 4]


def left_alone(run: Callable[[], object]) -> str:
    """Why it was left alone at once."""
    with applied("accumulate", N) as told:
        run()
    (place,) = told.left_alone
    return str(place["because"])


def withdrawn(run: Callable[[], object]) -> str:
    """Why it stopped after the first update."""
    with applied("accumulate", N) as told:
        run()
    assert len(told.applied) == 1
    assert not told.left_alone
    (place,) = told.withdrawn
    return str(place["because"])


def test_several_optimizers_are_left_alone() -> None:
    def run() -> Any:
        module = model()
        first, second = optim.Adam(module[0].parameters()), optim.SGD(module[2].parameters(), 0.1)
        weight = module[0].weight.clone()
        for optimizer in (first, second):
            clear_first(module, optimizer, batches()[0])
        assert not torch.equal(module[0].weight, weight)

    assert left_alone(run) == "there are several optimizers"


def test_a_grad_scaler_is_left_alone_unless_it_is_off() -> None:
    module = model()
    with applied("accumulate", N) as told:
        torch.amp.GradScaler("cpu", enabled=False).scale(torch.ones(()))
        assert not told.left_alone
    assert "GradScaler" in left_alone(
        lambda: torch.amp.GradScaler("cpu").scale(loss_of(module, batches()[0]))
    )


@pytest.mark.parametrize("kind", [partial(optim.LBFGS, max_iter=2), Sharp])
def test_closures_that_may_be_called_several_times_are_left_alone(kind: Any) -> None:
    original = scripted(by_closure, kind)
    with applied("accumulate", N) as told:
        assert scripted(by_closure, kind) == original
    assert "closure" in told.left_alone[0]["because"]
    assert not told.applied


def test_updates_inside_the_backward_pass_are_left_alone() -> None:
    def run() -> None:
        parameter = nn.Parameter(torch.ones(()))
        optimizer = optim.SGD([parameter], 0.1)
        parameter.register_post_accumulate_grad_hook(lambda _: optimizer.step())
        (parameter * 2).backward()
        assert parameter.item() == pytest.approx(0.8)

    assert left_alone(run) == "it updates inside the backward pass"


def test_where_a_script_throws_gradients_away_it_is_withdrawn() -> None:
    def run() -> None:
        module = model()
        optimizer = optim.Adam(module.parameters())
        clear_first(module, optimizer, batches()[0])
        loss_of(module, batches()[1]).backward()
        optimizer.zero_grad()
        assert module[0].weight.grad is None
        weight = module[0].weight.clone()
        clear_first(module, optimizer, batches()[2])
        assert not torch.equal(module[0].weight, weight)

    assert withdrawn(run) == "gradients are cleared without an update"


@pytest.mark.parametrize("clear", [lambda p: setattr(p, "grad", None), lambda p: p.grad.zero_()])
def test_where_a_script_clears_gradients_itself_it_is_withdrawn(clear: Callable[[Any], object]) -> None:
    def train(module: Any, optimizer: Any, batch: Any) -> Any:
        loss = loss_of(module, batch)
        loss.backward()
        optimizer.step()
        for parameter in module.parameters():
            clear(parameter)
        return loss

    assert withdrawn(lambda: scripted(train)) == "the script clears gradients itself"


def test_where_gradients_come_from_elsewhere_it_is_withdrawn() -> None:
    def train(module: Any, optimizer: Any, batch: Any) -> Any:
        loss = loss_of(module, batch)
        parameters = list(module.parameters())
        for parameter, gradient in zip(parameters, torch.autograd.grad(loss, parameters), strict=True):
            parameter.grad = gradient
        optimizer.step()
        return loss

    assert withdrawn(lambda: scripted(train)) == "its gradients do not come from backward()"


def test_errors_of_the_script_show_no_line_of_ours() -> None:
    def closure() -> Any:
        raise ArithmeticError

    with applied("accumulate", N):
        optimizer = optim.SGD(model().parameters(), 0.1)
        for _ in range(2):  # the second call is held
            with pytest.raises(ArithmeticError) as caught:
                optimizer.step(closure)
            frames = traceback.extract_tb(caught.value.__traceback__)
            ours = [frame for frame in frames if Path(frame.filename).is_relative_to(OURS)]
            assert not ours or sys.version_info < (3, 11)  # which puts a frame back when re-raising


@pytest.mark.slow
def test_a_trial_counts_updates_and_the_losses_of_all_their_batches(tmp_path: Path) -> None:
    code = """
        import torch
        layer = torch.nn.Linear(1, 1, bias=False)
        optimizer = torch.optim.SGD(layer.parameters(), 0.0)
        with torch.no_grad():
            layer.weight.fill_(1.0)
        for _ in range(100):
            loss = layer(torch.ones(2, 1)).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    """
    found = ran(tmp_path, code, {"accumulate": {"value": 3}}, 4)
    assert found.losses[1:] == (3.0, 3.0, 3.0)  # each is a sum of ones; the first call updates at once
    assert found.told.applied[0]["at"]["line"] == 11
