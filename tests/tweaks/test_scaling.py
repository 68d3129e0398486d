"""Loss scaling of --amp in fp16: as GradScaler by hand, and invisible between backward passes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from perfdoctor.tweaks import _scaling
from tests.support.applying import applied
from tests.support.surroundings import alone
from tests.tweaks.test_amp import STEPS, Classifier, batches, losses, model

torch = pytest.importorskip("torch")

from torch import nn

NORM = 0.5  # to which gradients are clipped


def loss_of(module: Any, x: Any, target: Any) -> Any:
    return nn.functional.cross_entropy(module(x), target)


def by_hand(steps: int, factors: Callable[[int], float]) -> tuple[list[float], dict[str, Any]]:
    """Autocast, GradScaler and clipping as torch's documentation has them."""
    module = model()
    optimizer = torch.optim.Adam(module.parameters(), 0.01)
    scaler = torch.amp.GradScaler("cpu")
    found = []
    for step, (x, target) in enumerate(batches(steps)):
        with torch.autocast("cpu", torch.float16):
            out = module(x)
        loss = nn.functional.cross_entropy(out.float(), target) * factors(step)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        nn.utils.clip_grad_norm_(module.parameters(), NORM)
        scaler.step(optimizer)
        scaler.update()
        found.append(loss.item())
    return found, module.state_dict()


def plain(steps: int, factors: Callable[[int], float]) -> tuple[list[float], dict[str, Any]]:
    """The same without any of it."""
    module = model()
    optimizer = torch.optim.Adam(module.parameters(), 0.01)
    found = []
    for step, (x, target) in enumerate(batches(steps)):
        loss = loss_of(module, x, target) * factors(step)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(module.parameters(), NORM)
        optimizer.step()
        found.append(loss.item())
    return found, module.state_dict()


@pytest.fixture
def fp16() -> Iterator[Any]:
    """The tweak, in fp16."""
    with applied("amp", amp_dtype="fp16") as told:
        yield told


def test_losses_and_weights_are_those_of_a_gradscaler_by_hand() -> None:
    expected, weights = by_hand(STEPS, lambda step: 1.0)
    with applied("amp", amp_dtype="fp16"):
        found, tweaked = plain(STEPS, lambda step: 1.0)
    assert found == expected
    assert all(torch.equal(weights[name], tweaked[name]) for name in weights)


def test_overflowing_steps_are_those_of_a_gradscaler_by_hand() -> None:
    def factors(step: int) -> float:
        return 1e6 if step in (3, 4, 9) else 1.0

    expected, weights = by_hand(20, factors)
    with applied("amp", amp_dtype="fp16"):
        found, tweaked = plain(20, factors)
    assert found == expected
    assert all(torch.equal(weights[name], tweaked[name]) for name in weights)


def test_a_step_that_overflowed_changes_nothing_and_training_goes_on(fp16: Any) -> None:
    module = model()
    optimizer = torch.optim.Adam(module.parameters(), 0.01)
    changed = []
    for step, (x, target) in enumerate(batches(4)):
        before = module.last.weight.clone()
        optimizer.zero_grad()
        (loss_of(module, x, target) * (1e6 if step == 1 else 1.0)).backward()
        optimizer.step()
        changed.append(not torch.equal(before, module.last.weight))
        assert torch.isfinite(module.last.weight.grad).all() or step == 1
    assert changed == [True, False, True, True]
    assert optimizer.state[module.last.weight]["step"] == 3


def test_small_gradients_do_not_vanish(fp16: Any) -> None:
    """Below 2**-24, where numbers of fp16 end."""
    module = model()
    x, target = next(batches())
    (loss_of(module, x, target) * 2.0**-22).backward()
    found = module.first.weight.grad
    module.zero_grad()
    loss_of(module, x, target).backward()
    assert torch.allclose(found * 2.0**22, module.first.weight.grad, rtol=0.01, atol=1e-4)


def test_gradients_that_a_pass_does_not_reach_are_not_marked_as_changed(fp16: Any) -> None:
    module, other = model(), model()
    loss_of(module, *next(batches())).backward()
    gradient = module.last.weight.grad
    before, version = gradient.clone(), gradient._version
    loss_of(other, *next(batches())).backward()
    assert torch.equal(module.last.weight.grad, before)
    assert gradient._version == version


@pytest.mark.parametrize("set_to_none", [True, False])
def test_accumulated_gradients_are_true_ones_after_each_pass(fp16: Any, set_to_none: bool) -> None:
    module, total = model(), torch.zeros(4, 64)
    loss_of(module, *next(batches())).backward()
    module.zero_grad(set_to_none)
    for x, target in batches(3):
        alone = torch.autograd.grad(loss_of(module, x, target), module.last.weight)[0]
        total += alone
        loss_of(module, x, target).backward()
        assert torch.allclose(module.last.weight.grad, total, atol=1e-3)


def test_of_two_optimizers_only_the_one_that_overflowed_is_skipped(fp16: Any) -> None:
    first, second = model(), model()
    optimizers = [torch.optim.SGD(module.parameters(), 0.1) for module in (first, second)]
    x, target = next(batches())
    (loss_of(first, x, target) * 1e6).backward()
    loss_of(second, x, target).backward()
    before = [module.last.weight.clone() for module in (first, second)]
    for optimizer in optimizers:
        optimizer.step()
    assert torch.equal(before[0], first.last.weight)
    assert not torch.equal(before[1], second.last.weight)


def test_a_closure_that_overflows_is_skipped(fp16: Any) -> None:
    module = model()
    optimizer = torch.optim.Adam(module.parameters(), 0.01)
    changed = []
    for step, (x, target) in enumerate(batches(3)):

        def closure(x: Any = x, target: Any = target, factor: float = 1e6 if step == 1 else 1.0) -> Any:
            optimizer.zero_grad()
            loss = loss_of(module, x, target) * factor
            loss.backward()
            return loss

        before = module.last.weight.clone()
        optimizer.step(closure)
        changed.append(not torch.equal(before, module.last.weight))
    assert changed == [True, False, True]


def test_lbfgs_learns(fp16: Any) -> None:
    module = model()
    optimizer = torch.optim.LBFGS(module.parameters(), 0.1)
    x, target = next(batches())

    def closure() -> Any:
        optimizer.zero_grad()
        loss = loss_of(module, x, target)
        loss.backward()
        return loss

    first = optimizer.step(closure)
    assert optimizer.step(closure) < first


def test_optimizers_that_step_inside_the_backward_pass_see_true_gradients() -> None:
    def run(factor: float) -> tuple[Any, Any]:
        module = model()
        before = module.last.weight.clone()
        for parameter in module.parameters():
            optimizer = torch.optim.SGD([parameter], 0.1)
            parameter.register_post_accumulate_grad_hook(lambda _, optimizer=optimizer: optimizer.step())
        for x, target in batches(3):
            (loss_of(module, x, target) * factor).backward()
            module.zero_grad()
        return before, module.last.weight.detach()

    _, expected = run(1.0)
    with applied("amp", amp_dtype="fp16"):
        _, found = run(1.0)
        before, skipped = run(1e6)
    assert torch.allclose(found, expected, atol=1e-3)
    assert torch.isfinite(skipped).all()
    assert not torch.equal(before, found)


def test_parameters_beside_the_model_and_inputs_get_true_gradients(fp16: Any) -> None:
    module = model()
    temperature = nn.Parameter(torch.ones(()))
    torch.optim.SGD([*module.parameters(), temperature], 0.1)
    x, target = next(batches())
    x.requires_grad_()
    named = torch.ones((), requires_grad=True)
    loss = nn.functional.cross_entropy(module(x) * temperature * named, target)
    expected = torch.autograd.grad(loss, (x, temperature, named), retain_graph=True)
    loss.backward(inputs=[x, temperature, named])
    for tensor, gradient in zip((x, temperature, named), expected, strict=True):
        assert torch.allclose(tensor.grad, gradient, atol=1e-3)


def test_the_scale_grows_after_enough_good_steps(fp16: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_scaling, "GROWTH_STEPS", 4)
    seeds: list[float] = []

    class Seed(torch.autograd.Function):
        @staticmethod
        def forward(context: Any, loss: Any) -> Any:
            return loss.clone()

        @staticmethod
        def backward(context: Any, gradient: Any) -> Any:
            seeds.append(gradient.item())
            return gradient

    module = model()
    optimizer = torch.optim.SGD(module.parameters(), 0.01)
    for x, target in batches(6):
        optimizer.zero_grad()
        Seed.apply(loss_of(module, x, target)).backward()
        optimizer.step()
    assert seeds == [2.0**16] * 4 + [2.0**17] * 2


def test_a_script_with_a_gradscaler_scales_alone(fp16: Any) -> None:
    module = model()
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
    loss = loss_of(module, *next(batches()))
    expected = torch.autograd.grad(loss, module.last.weight, retain_graph=True)[0]
    scaler.scale(loss).backward()
    assert torch.allclose(module.last.weight.grad, 8 * expected, atol=1e-2)
    (place,) = fp16.left_alone
    assert (place["what"], place["because"]) == (
        "loss scaling",
        "the script's own GradScaler scales the loss",
    )


def test_a_gradscaler_that_is_switched_off_leaves_the_scaling_to_us(fp16: Any) -> None:
    assert losses_with_disabled_scaler()[-1] < 1.2
    assert not fp16.left_alone


def losses_with_disabled_scaler() -> list[float]:
    module = model()
    optimizer = torch.optim.Adam(module.parameters(), 0.01)
    scaler = torch.amp.GradScaler("cpu", enabled=False)
    found = []
    for x, target in batches():
        loss = loss_of(module, x, target)
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        found.append(loss.item())
    return found


def test_a_graph_of_gradients_is_left_unscaled(fp16: Any) -> None:
    module = model()
    loss = loss_of(module, *next(batches()))
    expected = torch.autograd.grad(loss, module.last.weight, retain_graph=True)[0]
    loss.backward(create_graph=True)
    assert torch.equal(module.last.weight.grad, expected)
    assert "create_graph" in fp16.left_alone[0]["because"]


def test_a_backward_pass_that_torch_refuses_leaves_gradients_as_they_were(fp16: Any) -> None:
    module = model()
    loss_of(module, *next(batches())).backward()
    before = module.last.weight.grad.clone()
    with pytest.raises(RuntimeError, match="scalar outputs"):
        module(torch.ones(2, 16)).backward()
    loss = loss_of(module, *next(batches()))
    loss.detach_()
    with pytest.raises(RuntimeError, match="does not require grad"):
        loss.backward()
    assert torch.equal(module.last.weight.grad, before)


def test_in_bf16_nothing_is_scaled() -> None:
    seen: list[float] = []
    module = model()
    module.last.bias.register_hook(lambda gradient: seen.append(gradient.abs().max().item()))
    with applied("amp", amp_dtype="bf16"):
        losses(module, 1)
    assert seen[0] < 1


def test_sparse_gradients_are_true_ones(fp16: Any) -> None:
    class Words(Classifier):
        def __init__(self) -> None:
            super().__init__()
            self.table = nn.Embedding(10, 16, sparse=True)

        def forward(self, index: Any) -> Any:
            return super().forward(self.table(index))

    module = Words()
    loss = loss_of(module, torch.tensor([1, 2, 2]), torch.tensor([0, 1, 2]))
    expected = torch.autograd.grad(loss, module.table.weight, retain_graph=True)[0].to_dense()
    loss.backward()
    assert torch.allclose(module.table.weight.grad.to_dense(), expected, atol=1e-3)


@pytest.mark.parametrize("view", [True, False], ids=["views into buckets", "copies"])
def test_ddp_averages_and_gives_true_gradients(fp16: Any, view: bool) -> None:
    module = model()
    with alone():
        wrapper = nn.parallel.DistributedDataParallel(module, gradient_as_bucket_view=view)
        total = torch.zeros(4, 64)
        for x, target in batches(3):
            total += torch.autograd.grad(loss_of(module, x, target), module.last.weight)[0]
            loss_of(wrapper, x, target).backward()
            assert torch.allclose(module.last.weight.grad, total, atol=1e-3)
