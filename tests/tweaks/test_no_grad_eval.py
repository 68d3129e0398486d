"""--no-grad-eval: passes that only evaluate record no gradients."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from tests.support.applying import applied

torch = pytest.importorskip("torch")
from torch import nn

PASSES = 3  # that have to go unused; where a name holds the output, the third is dropped during the fourth


class ForceField(nn.Module):
    """Its output is a gradient."""

    def __init__(self) -> None:
        super().__init__()
        self.energy = nn.Linear(2, 1)

    def forward(self, places: Any) -> Any:
        places = places.detach().requires_grad_()
        energy = self.energy(places).tanh().sum()
        (force,) = torch.autograd.grad(energy, places, create_graph=True)
        return energy, force


@dataclass
class Output:
    """What some libraries return."""

    logits: Any
    hidden: Any


class Wrapping(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(2, 1)

    def forward(self, x: Any) -> Any:
        return {"first": [Output(self.layer(x), None)]}


def model() -> Any:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(2, 4), nn.BatchNorm1d(4), nn.Dropout(0.5), nn.Linear(4, 1))


def evaluated(module: Any, passes: int, use: Callable[[Any], object] = lambda output: None) -> list[bool]:
    """Whether each pass recorded gradients."""
    module.eval()
    recorded = []
    for _ in range(passes):
        output = module(torch.randn(4, 2))
        recorded.append(output.requires_grad)
        use(output)
    module.train()
    return recorded


def test_passes_stop_recording_once_three_went_unused() -> None:
    with applied("no_grad_eval") as told:
        module = model()
        assert evaluated(module, 6) == [True] * (PASSES + 1) + [False] * 2
        assert evaluated(module, 2) == [True] * 2  # other lines call it: those of this test
    (place,) = told.applied
    assert (place["was"], place["now"]) == (True, False)
    assert place["at"]["function"] == "evaluated"


def test_every_further_validation_from_the_same_lines_is_without_gradients() -> None:
    with applied("no_grad_eval"):
        module = model()
        first, second = (evaluated(module, 5) for _ in range(2))
    assert first == [True] * (PASSES + 1) + [False]
    assert second == [False] * 5


def test_training_between_validations_is_the_same_to_the_last_bit() -> None:
    def losses() -> list[float]:
        module = model()
        optimizer = torch.optim.Adam(module.parameters(), 1e-2)
        found = []
        for _ in range(10):
            for _ in range(5):
                loss = (module(torch.randn(8, 2)) - 1).square().mean()
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
                found.append(loss.item())
            module.eval()
            found += [module(torch.randn(8, 2)).sum().item() for _ in range(3)]
            module.train()
        return found

    original = losses()
    with applied("no_grad_eval") as told:
        assert losses() == original
    assert told.applied


def test_an_output_that_a_backward_pass_uses_keeps_its_graph() -> None:
    with applied("no_grad_eval") as told:
        assert evaluated(model(), 6, lambda output: output.sum().backward()) == [True] * 6
    assert not told.applied
    assert told.left_alone[0]["because"] == "a backward pass goes through their outputs"


def test_outputs_that_are_kept_for_a_later_backward_pass_keep_theirs() -> None:
    kept: list[Any] = []
    with applied("no_grad_eval") as told:
        assert evaluated(model(), 6, kept.append) == [True] * 6
        torch.stack(kept).sum().backward()
        assert told.left_alone
    assert not told.applied


def test_a_critic_in_eval_mode_passes_gradients_on() -> None:
    generator, critic = nn.Linear(2, 2), model().eval()
    with applied("no_grad_eval") as told:
        for _ in range(6):
            assert critic(generator(torch.randn(4, 2))).requires_grad
    assert not told.applied
    assert told.left_alone[0]["because"] == "an input requires a gradient"


def test_a_model_that_takes_gradients_itself_may_do_so() -> None:
    field = ForceField().eval()
    with applied("no_grad_eval") as told:
        forces = [field(torch.ones(1, 2))[1] for _ in range(6)]
    assert all(force.requires_grad for force in forces)
    assert told.left_alone[0]["because"] == "the model computes gradients itself"


def test_training_in_eval_mode_from_other_lines_keeps_its_gradients() -> None:
    with applied("no_grad_eval") as told:
        module = model()
        assert evaluated(module, 5)[-1] is False
        module.eval()
        for _ in range(6):
            module(torch.randn(4, 2)).sum().backward()
    assert len(told.left_alone) == 1


def test_outputs_are_looked_for_in_containers() -> None:
    module = Wrapping().eval()
    with applied("no_grad_eval"):
        recorded = [module(torch.ones(1, 2))["first"][0].logits.requires_grad for _ in range(6)]
    assert recorded == [True] * PASSES + [False] * 3


def test_what_records_nothing_is_no_place() -> None:
    module = model().requires_grad_(False)
    with applied("no_grad_eval") as told:
        evaluated(module, 6)
        module.requires_grad_()
        with torch.no_grad():
            evaluated(module, 6)
        for _ in range(6):
            module(torch.ones(2, 2))
    assert not told.events


def test_an_error_in_a_pass_leaves_gradients_on() -> None:
    module = model().eval()

    def call(width: int) -> Any:
        return module(torch.ones(2, width))

    with applied("no_grad_eval"):
        recorded = []
        for width in (2, 2, 2, 2, 3):
            try:
                recorded.append(call(width).requires_grad)
            except RuntimeError:
                recorded.append(torch.is_grad_enabled())
    assert recorded == [True] * PASSES + [False, True]


def test_an_input_that_requires_a_gradient_is_seen_inside_a_list() -> None:
    class Listed(nn.Linear):
        def forward(self, given: list[torch.Tensor]) -> torch.Tensor:
            return super().forward(given[0])

    listed = Listed(2, 2).eval()
    with applied("no_grad_eval") as told:
        for _ in range(6):
            assert listed([torch.randn(4, 2, requires_grad=True)]).requires_grad
    assert not told.applied
    assert told.left_alone[0]["because"] == "an input requires a gradient"


def test_lines_whose_passes_need_gradients_later_are_withdrawn() -> None:
    module = model().eval()
    with applied("no_grad_eval") as told:
        for number in range(PASSES + 2):
            module(torch.ones(2, 2, requires_grad=number > PASSES))
    assert len(told.applied) == 1
    assert [place["because"] for place in told.withdrawn] == ["an input requires a gradient"]
    assert not told.left_alone
