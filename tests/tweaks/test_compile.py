"""--compile: models that train are compiled in place. The backend here is eager: what is tested is what it is given."""

from __future__ import annotations

import copy
import functools
import io
from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.applying import applied
from tests.support.surroundings import alone, hidden_from_compiler

torch = pytest.importorskip("torch")

from torch import _dynamo as dynamo
from torch import nn

pytestmark = pytest.mark.process

STEPS = 50


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(8, 16), nn.Linear(16, 1)

    def forward(self, x: Any) -> Any:
        return self.last(torch.tanh(self.first(x)))


def model() -> Model:
    torch.manual_seed(0)
    return Model()


def sequential() -> Any:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))


def losses(module: Any, steps: int = STEPS) -> list[float]:
    generator = torch.Generator().manual_seed(1)
    optimizer = torch.optim.Adam(module.parameters(), 0.01)
    found = []
    for _ in range(steps):
        x = torch.randn(16, 8, generator=generator)
        loss = nn.functional.mse_loss(module(x), x.sum(1, keepdim=True))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    return found


def graphs() -> int:
    return int(dynamo.utils.counters["stats"]["unique_graphs"])


@pytest.fixture(autouse=True)
def modes(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """The modes that torch.compile is called with; a fresh compiler that needs no time."""
    asked: list[Any] = []
    compile_ = torch.compile

    @functools.wraps(compile_)
    def eagerly(*args: Any, mode: Any = None, **kwargs: Any) -> Any:
        asked.append(mode)
        return compile_(*args, **{"backend": "eager", **kwargs})

    monkeypatch.setattr(torch, "compile", eagerly)
    hidden_from_compiler()
    dynamo.reset()
    dynamo.utils.counters.clear()
    yield asked
    dynamo.reset()


@pytest.mark.parametrize("make", [model, sequential])
def test_the_model_runs_as_one_graph_with_the_same_losses(make: Any) -> None:
    expected = losses(make())
    with applied("compile") as told:
        found = losses(make())
    assert found == expected  # the eager backend rounds alike
    assert graphs() == 1
    assert not dynamo.utils.counters["graph_break"]
    (place,) = told.applied
    assert (place["was"], place["now"]) == ("eager", "compiled (default)")
    assert place["at"]["file"] == __file__


def test_the_mode_is_handed_on(modes: list[Any]) -> None:
    with applied("compile", compile_mode="max-autotune") as told:
        losses(model(), 1)
    assert modes == ["max-autotune"]
    assert told.applied[0]["now"] == "compiled (max-autotune)"


def test_type_names_copies_and_checkpoints_stay_as_they_were() -> None:
    module = model()
    names = list(module.state_dict())
    with applied("compile"):
        losses(module, 2)
        assert type(module) is Model
        assert list(module.state_dict()) == names
        copy.deepcopy(module)
        file = io.BytesIO()
        torch.save(module, file)


def test_two_models_are_two_graphs() -> None:
    with applied("compile") as told:
        losses(model(), 2)
        losses(sequential(), 2)
    assert graphs() == 2
    assert [place["what"] for place in told.applied] == ["Model", "Sequential"]


def test_the_place_is_where_the_model_was_made() -> None:
    with applied("compile") as told:
        made = model()
        losses(made, 2)
    (place,) = told.applied
    assert place["at"]["function"] == "model"


def test_of_two_that_one_line_made_the_place_is_the_call() -> None:
    with applied("compile") as told:
        first, second = model(), model()
        losses(first, 2)
        losses(second, 2)
    assert [place["at"]["function"] for place in told.applied] == ["losses"]
    assert second._compiled_call_impl is not None


def test_a_wrapper_of_the_same_line_is_no_other_model() -> None:
    with alone(), applied("compile") as told:
        wrapper = nn.parallel.DistributedDataParallel(Model())
        losses(wrapper, 2)
    (place,) = told.applied
    assert (place["what"], place["at"]["function"]) == (
        "Model",
        "test_a_wrapper_of_the_same_line_is_no_other_model",
    )


def test_inside_ddp_the_wrapped_module_is_compiled() -> None:
    with alone():
        module = model()
        with applied("compile"):
            wrapper = nn.parallel.DistributedDataParallel(module)
            losses(wrapper, 3)
        assert wrapper._compiled_call_impl is None
        assert module._compiled_call_impl is not None
        assert graphs() >= 1


def test_under_autocast_of_the_other_tweak_the_graph_is_one() -> None:
    with applied("amp"), applied("compile"):
        found = losses(model(), 5)
    assert found == pytest.approx(losses(model(), 5), abs=0.05)
    assert graphs() == 1


# ------------------------------------------------------------ left alone


def reasons(told: Any) -> list[str]:
    assert not told.applied
    return [place["because"] for place in told.left_alone]


def whole(module: Any) -> Any:
    return torch.compile(module)


def in_place(module: Any) -> Any:
    module.compile(backend="eager")
    return module


def forward(module: Any) -> Any:
    module.forward = torch.compile(module.forward)
    return module


@pytest.mark.parametrize("compiling", [whole, in_place, forward])
def test_a_compiled_model_is_left_alone(compiling: Any) -> None:
    with applied("compile") as told:
        losses(compiling(model()), 2)
    assert reasons(told) == ["it is already compiled"]


@pytest.mark.parametrize("compiling", [whole, in_place, forward])
def test_a_model_with_compiled_parts_is_left_alone(compiling: Any) -> None:
    module = model()
    module.first = compiling(module.first)
    with applied("compile") as told:
        losses(module, 2)
    assert reasons(told) == ["parts of it are already compiled"]


def test_torchscript_is_left_alone() -> None:
    scripted = torch.jit.script(sequential())
    with applied("compile") as told:
        losses(scripted, 2)
    assert reasons(told) == ["it is TorchScript"]


def test_data_parallel_is_left_alone() -> None:
    with applied("compile") as told:
        losses(nn.DataParallel(model()), 2)
    assert reasons(told) == ["DataParallel does not work with torch.compile"]


def test_a_model_that_is_only_evaluated_stays_as_it_is() -> None:
    module, teacher = model(), model().eval()
    with applied("compile") as told:
        with torch.no_grad():
            module(torch.ones(1, 8))
        teacher(torch.ones(1, 8))
    assert module._compiled_call_impl is teacher._compiled_call_impl is None
    assert told.events == []
