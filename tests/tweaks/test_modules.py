"""What tweaks at outermost module calls share: which calls those are, and the tensors in what goes in and out."""

from __future__ import annotations

import threading
import types
from collections import OrderedDict, UserDict, namedtuple
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from unittest import mock

import pytest

torch = pytest.importorskip("torch")

from torch import _dynamo as dynamo
from torch import nn
from torch.utils.checkpoint import checkpoint

from perfdoctor.probe import patch
from perfdoctor.probe.trial.tweak import Tweaking
from perfdoctor.tweaks._modules import before_ddp, mapped, name_of, on_root_calls
from tests.support import sessions
from tests.support.surroundings import hidden_from_compiler

Pair = namedtuple("Pair", ["mean", "spread"])


@dataclass
class Output:
    """What a model may return."""

    loss: Any
    name: str = "output"


class Twice(nn.Module):
    """Calls its part two times."""

    def __init__(self) -> None:
        super().__init__()
        self.part = nn.Linear(3, 3)

    def forward(self, x: Any) -> Any:
        return self.part(self.part(x))


def sums(value: Any) -> list[float]:
    """Of each tensor inside."""
    found: list[float] = []
    mapped(torch, value, lambda tensor: found.append(tensor.sum().item()) or tensor)
    return found


@pytest.fixture
def here(monkeypatch: pytest.MonkeyPatch) -> Iterator[Tweaking]:
    """What a tweak gets; what it replaces is put back."""
    monkeypatch.setattr(nn.Module, "__call__", nn.Module.__call__)
    ddp = nn.parallel.DistributedDataParallel
    monkeypatch.setattr(ddp, "__init__", ddp.__init__)
    with mock.patch.dict(patch.turned_off, clear=True):
        yield Tweaking("test", sessions.Session(), torch)
        assert not patch.broken()


@pytest.fixture
def seen(here: Tweaking) -> list[Any]:
    """The modules that a tweak is asked about."""
    modules: list[Any] = []
    on_root_calls(here, lambda module, args, kwargs: modules.append(module))
    return modules


def doubled(value: Any) -> Any:
    return mapped(torch, value, lambda tensor: tensor * 2)


class Own:
    """What a script's model returns."""

    def __init__(self, logits: torch.Tensor) -> None:
        self.logits, self.hidden, self.name = logits, [logits], "out"


@pytest.mark.parametrize(
    "made", [Own, lambda logits: types.SimpleNamespace(logits=logits, hidden=[logits], name="out")]
)
def test_objects_of_a_scripts_own_classes_are_copied_with_their_tensors(made: Any) -> None:
    before = made(torch.ones(2))
    after = doubled(before)
    assert type(after) is type(before)
    assert (after.logits.sum(), after.hidden[0].sum(), after.name) == (4, 4, "out")
    assert before.logits.sum() == 2


def test_a_dict_in_disguise_is_looked_into() -> None:
    after = doubled(UserDict(logits=torch.ones(2)))
    assert type(after) is UserDict
    assert after["logits"].sum() == 4


def test_modules_and_functions_are_no_outputs() -> None:
    for value in (nn.Linear(2, 2), doubled, torch.nn.Module, torch.distributions.Normal(0.0, 1.0)):
        assert doubled(value) is value


def test_the_outermost_call_is_seen_once(seen: list[Any]) -> None:
    model = Twice()
    model(torch.ones(1, 3))
    assert seen == [model]


def test_after_a_call_that_raised_the_next_one_is_seen(seen: list[Any]) -> None:
    model = Twice()
    with pytest.raises(RuntimeError):
        model(torch.ones(1, 5))
    model(torch.ones(1, 3))
    assert seen == [model, model]


def test_a_module_without_parameters_is_no_model(seen: list[Any]) -> None:
    nn.MSELoss()(torch.ones(2), torch.ones(2))
    assert seen == []


def test_what_a_checkpoint_computes_again_in_the_backward_pass_is_no_call(seen: list[Any]) -> None:
    model = Twice()
    x = torch.ones(1, 3, requires_grad=True)
    checkpoint(model, x, use_reentrant=False).sum().backward()
    assert seen == [model]


def test_calls_of_another_thread_are_outermost_for_themselves(seen: list[Any]) -> None:
    class Waits(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.part = nn.Linear(2, 2)

        def forward(self, x: Any) -> Any:
            thread = threading.Thread(target=other, args=(x,))
            thread.start()
            thread.join()
            return self.part(x)

    model, other = Waits(), nn.Linear(2, 2)
    model(torch.ones(1, 2))
    assert seen == [model, other]


def test_a_module_that_is_being_traced_is_left_to_the_tracer(seen: list[Any]) -> None:
    torch.jit.trace(Twice(), torch.ones(1, 3), check_trace=False)
    assert seen == []


def test_the_outermost_tweak_sees_the_arguments_first_and_the_result_last(here: Tweaking) -> None:
    order: list[str] = []

    def named(name: str) -> tuple[Any, Any]:
        def before(module: Any, args: Any, kwargs: Any) -> Any:
            order.append(name)
            return (args[0] + 1,), kwargs, name

        def after(token: str, result: Any) -> Any:
            order.append(token)
            return result * 10

        return before, after

    on_root_calls(here, *named("inner"))
    on_root_calls(here, *named("outer"), outermost=True)
    model = nn.Linear(1, 1, bias=False)
    nn.init.ones_(model.weight)
    assert model(torch.zeros(1, 1)).item() == 200
    assert order == ["outer", "inner", "inner", "outer"]


def test_a_compiled_model_keeps_its_graphs(here: Tweaking) -> None:
    def counts() -> list[Any]:
        dynamo.reset()
        counters = dynamo.utils.counters
        counters.clear()
        compiled = torch.compile(Twice(), backend="eager")
        for _ in range(3):
            compiled(torch.ones(1, 3)).sum().backward()
        return [dict(counters[name]) for name in ("frames", "stats", "graph_break")]

    counts()  # the first compilation of a process traces a frame of torch's own as well
    bare = counts()
    hidden_from_compiler()
    on_root_calls(here, lambda module, args, kwargs: (args, kwargs, 1), lambda token, result: result)
    assert counts() == bare


def test_the_name_of_a_compiled_model_is_its_own() -> None:
    assert name_of(torch.compile(Twice(), backend="eager")) == "Twice"


def test_a_module_is_shown_before_ddp_takes_it(here: Tweaking) -> None:
    shown: list[Any] = []
    before_ddp(here, shown.append)
    model = Twice()
    with pytest.raises(ValueError, match="process group"):
        nn.parallel.DistributedDataParallel(model)
    assert shown == [model]


@pytest.mark.parametrize(
    "value",
    [
        [torch.ones(1), "word"],
        (torch.ones(1), None),
        {"a": torch.ones(1), "b": [torch.ones(1)]},
        OrderedDict(a=torch.ones(1)),
        Pair(torch.ones(1), 3),
        Output(torch.ones(1)),
        torch.ones(1, 2).max(dim=1),
    ],
    ids=lambda value: type(value).__name__,
)
def test_containers_keep_their_type_and_are_not_written_into(value: Any) -> None:
    before = sums(value)
    changed = doubled(value)
    assert type(changed) is type(value)
    assert sums(changed) == [2 * number for number in before]
    assert sums(value) == before


def test_outputs_of_transformers_keep_their_type() -> None:
    outputs = pytest.importorskip("transformers.modeling_outputs")
    given = outputs.CausalLMOutput(loss=torch.ones(()), logits=torch.ones(2))
    changed = doubled(given)
    assert type(changed) is type(given)
    assert (changed.loss.item(), changed["logits"].sum().item(), given.loss.item()) == (2.0, 4.0, 1.0)


def test_what_holds_no_tensor_comes_back_as_the_same_object() -> None:
    value = [{"a": ("word", 3)}, Output(None)]
    assert doubled(value) is value
