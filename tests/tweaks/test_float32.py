"""--float32: models in double precision compute in single, between inputs and outputs that stay double."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.support.applying import applied
from tests.support.surroundings import alone, hidden_from_compiler

torch = pytest.importorskip("torch")

from torch import _dynamo as dynamo
from torch import nn

STEPS = 50


class Planets(nn.Module):
    """Notes the number types it computes with."""

    def __init__(self, **given: Any) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(8, 32, **given), nn.Linear(32, 4, **given)
        self.register_buffer("centre", torch.zeros(8, **given))
        self.width = torch.ones(8, **given)  # no buffer, as many scripts have it

    def forward(self, x: Any) -> Any:
        hidden = torch.tanh(self.first((x - self.centre) / self.width))
        out = self.last(hidden + torch.zeros(32))
        self.computed_in = out.dtype
        return out


def model(**given: Any) -> Planets:
    torch.manual_seed(0)
    return Planets(**given).double()


def batches() -> Iterator[tuple[Any, Any]]:
    numpy = pytest.importorskip("numpy")
    random = numpy.random.default_rng(0)
    for _ in range(STEPS):
        x = random.standard_normal((32, 8))
        yield torch.from_numpy(x), torch.from_numpy(x[:, :4] * 2)


def losses(module: Any, optimizer: Any = None) -> list[float]:
    """Of a plain loop whose data are NumPy's doubles."""
    optimizer = optimizer or torch.optim.Adam(module.parameters(), 0.01)
    found = []
    for x, target in batches():
        loss = nn.functional.mse_loss(module(x), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    return found


def test_the_model_computes_in_float32_and_hands_back_float64() -> None:
    module = model()
    weight = module.first.weight
    with applied("float32") as told:
        out = module(torch.ones(2, 8, dtype=torch.float64))
    assert (module.computed_in, out.dtype) == (torch.float32, torch.float64)
    assert module.first.weight is weight
    (place,) = told.applied
    assert (place["what"], place["was"], place["now"]) == ("Planets", "float64", "float32")
    assert place["at"]["file"] == __file__


def test_after_fifty_steps_the_losses_differ_by_rounding_only() -> None:
    original = losses(model())
    with applied("float32"):
        tweaked = losses(model())
    assert tweaked != original
    # An update rounds to 24 binary digits, 6e-8; fifty of them add up, and a step of Adam magnifies.
    assert tweaked == pytest.approx(original, rel=1e-4)


def test_the_names_in_a_checkpoint_stay_and_gradients_are_float32() -> None:
    module = model()
    names = list(module.state_dict())
    with applied("float32"):
        losses(module)
    assert list(module.state_dict()) == names
    assert {parameter.grad.dtype for parameter in module.parameters()} == {torch.float32}


def made_under_default() -> Any:
    torch.set_default_dtype(torch.float64)
    torch.manual_seed(0)
    return Planets()


@pytest.mark.parametrize(
    "make",
    [
        lambda: model().to(torch.float64),
        lambda: Planets(dtype=torch.float64),
        made_under_default,
    ],
    ids=["to", "constructor", "default type"],
)
def test_wherever_double_precision_comes_from_it_goes(make: Callable[[], Any]) -> None:
    with applied("float32"):
        module = make()
        default = torch.get_default_dtype()
        module(torch.ones(2, 8, dtype=torch.float64))
        assert module.computed_in is torch.float32
        assert torch.get_default_dtype() is default


def test_the_default_number_type_comes_back_after_an_error() -> None:
    with applied("float32"):
        module = made_under_default()
        with pytest.raises(RuntimeError):
            module(torch.ones(2, 3))
        assert torch.get_default_dtype() is torch.float64


def test_an_lstm_computes_in_float32() -> None:
    module = nn.LSTM(4, 8).double()
    with applied("float32"):
        out, (state, _) = module(torch.ones(3, 2, 4, dtype=torch.float64))
        out.sum().backward()
    assert (out.dtype, state.dtype) == (torch.float64, torch.float64)
    assert module.weight_ih_l0.grad.dtype is torch.float32


def test_an_optimizer_that_resumes_from_a_checkpoint_goes_on() -> None:
    module = model()
    optimizer = torch.optim.Adam(module.parameters(), 0.01)
    losses(module, optimizer)
    twin = model()
    twin.load_state_dict(module.state_dict())
    resumed = torch.optim.Adam(twin.parameters(), 0.01)
    resumed.load_state_dict(copy.deepcopy(optimizer.state_dict()))
    expected = losses(module, optimizer)
    with applied("float32"):
        assert losses(twin, resumed) == pytest.approx(expected, rel=1e-3)


def test_gradients_reach_inputs_in_their_own_type() -> None:
    x = torch.ones(2, 8, dtype=torch.float64, requires_grad=True)
    with applied("float32"):
        model()(x).sum().backward()
    assert x.grad.dtype is torch.float64


def test_a_compiled_model_computes_in_float32() -> None:
    hidden_from_compiler()
    dynamo.reset()
    dynamo.utils.counters.clear()
    expected = losses(model())
    with applied("float32"):
        assert losses(torch.compile(model(), backend="eager")) == pytest.approx(expected, rel=1e-4)


# ------------------------------------------------------------ left alone


def test_a_float32_model_is_nothing_to_change() -> None:
    module = model().float()
    with applied("float32") as told:
        out = module(torch.ones(2, 8))
    assert out.dtype is torch.float32
    assert told.events == []


def test_a_model_that_mixes_number_types_means_it() -> None:
    module = nn.Sequential(nn.Linear(3, 3), nn.Linear(3, 3).double())
    with applied("float32") as told, pytest.raises(RuntimeError):
        module(torch.ones(1, 3))
    assert not told.applied
    assert told.left_alone[0]["because"] == "only some of its parameters are float64"
    assert module[1].weight.dtype is torch.float64


def test_what_the_script_computes_outside_of_models_stays_double() -> None:
    with applied("float32") as told:
        total = torch.ones(3, dtype=torch.float64).sum()
        nn.MSELoss()(total, total)
    assert total.dtype is torch.float64
    assert told.events == []


def test_a_model_without_shapes_yet_is_changed_once_it_has_them() -> None:
    module = nn.LazyLinear(3, dtype=torch.float64)
    x = torch.ones(1, 4, dtype=torch.float64)
    with applied("float32") as told:
        assert module(x).dtype is torch.float64
        module(x)
    assert module.weight.dtype is torch.float32
    assert len(told.applied) == 1


def test_ddp_finds_float32_parameters() -> None:
    expected = losses(model())
    with alone(), applied("float32") as told:
        module = model()
        found = losses(nn.parallel.DistributedDataParallel(module))
    assert found == pytest.approx(expected, rel=1e-4)
    assert module.computed_in is torch.float32
    assert len(told.applied) == 1
