"""--amp: models compute in 16 bits, everything around them in float32."""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.support.applying import applied, ran
from tests.support.surroundings import hidden_from_compiler

torch = pytest.importorskip("torch")

from torch import _dynamo as dynamo
from torch import nn

pytestmark = pytest.mark.process

STEPS = 50


class Classifier(nn.Module):
    """Notes in which type its last layer computed."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.last = nn.Linear(16, 64), nn.Linear(64, 4)

    def forward(self, x: Any) -> Any:
        out = self.last(torch.relu(self.first(x)))
        self.computed_in = out.dtype
        return out


def model() -> Classifier:
    torch.manual_seed(0)
    return Classifier()


def batches(steps: int = STEPS) -> Iterator[tuple[Any, Any]]:
    """Classes that a linear map tells apart."""
    generator = torch.Generator().manual_seed(1)
    truth = torch.randn(16, 4, generator=generator)
    for _ in range(steps):
        x = torch.randn(32, 16, generator=generator)
        yield x, (x @ truth).argmax(1)


def losses(module: Any, steps: int = STEPS) -> list[float]:
    """Of a plain loop with Adam."""
    optimizer = torch.optim.Adam(module.parameters(), 0.01)
    found = []
    for x, target in batches(steps):
        loss = nn.functional.cross_entropy(module(x), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        found.append(loss.item())
    return found


@pytest.mark.parametrize(("word", "dtype"), [("bf16", torch.bfloat16), ("fp16", torch.float16)])
def test_the_model_computes_in_16_bits_and_hands_back_float32(word: str, dtype: Any) -> None:
    module = model()
    with applied("amp", amp_dtype=word) as told:
        out = module(torch.ones(2, 16))
    assert (module.computed_in, out.dtype) == (dtype, torch.float32)
    place = told.applied[0]
    assert (place["what"], place["was"], place["now"]) == (
        "Classifier",
        "float32",
        f"{str(dtype)[6:]} on cpu",
    )
    assert place["at"]["file"] == __file__


def test_on_the_cpu_bf16_is_the_default() -> None:
    module = model()
    with applied("amp"):
        module(torch.ones(2, 16))
    assert module.computed_in is torch.bfloat16


# What rounds to 8 digits (bf16) or 11 (fp16) moves a loss of this size by less than that: 2**-8 and 2**-11, ten
# times over for the way that fifty updates take.
@pytest.mark.parametrize(("word", "bound"), [("bf16", 10 / 2**8), ("fp16", 10 / 2**11)])
def test_after_fifty_steps_the_losses_differ_by_rounding_only(word: str, bound: float) -> None:
    original = losses(model())
    with applied("amp", amp_dtype=word):
        tweaked = losses(model())
    assert tweaked != original
    assert max(abs(one - other) for one, other in zip(original, tweaked, strict=True)) < bound
    assert tweaked[-1] < 0.8 * tweaked[0]


@pytest.mark.parametrize("word", ["bf16", "fp16"])
def test_parameters_gradients_and_checkpoints_stay_float32(word: str) -> None:
    module = model()
    before = {name: value.dtype for name, value in module.state_dict().items()}
    with applied("amp", amp_dtype=word):
        losses(module, 2)
    assert {name: value.dtype for name, value in module.state_dict().items()} == before
    assert {parameter.grad.dtype for parameter in module.parameters()} == {torch.float32}


def test_weights_are_cast_anew_after_each_update() -> None:
    """A cache that lives on would compute with the first weights for ever."""
    module = model()
    x = torch.ones(2, 16)
    with applied("amp"):
        first = module(x)
        with torch.no_grad():
            module.last.bias += 1
        assert torch.allclose(module(x), first + 1, atol=0.02)
    assert not torch.is_autocast_enabled("cpu")


def test_validation_computes_in_16_bits_too() -> None:
    module = model().eval()
    with applied("amp"), torch.no_grad():
        module(torch.ones(2, 16))
    assert module.computed_in is torch.bfloat16


def test_a_call_that_raises_leaves_no_autocast_behind() -> None:
    with applied("amp"), pytest.raises(RuntimeError):
        model()(torch.ones(2, 3))
    assert not torch.is_autocast_enabled("cpu")


def test_the_type_of_what_comes_back_is_kept() -> None:
    class Detector(Classifier):
        def forward(self, x: Any) -> Any:
            out = super().forward(x)
            return {"logits": out, "boxes": [out, (out, 3)], "classes": out.argmax(1)}

    with applied("amp"):
        found = Detector()(torch.ones(2, 16))
    assert list(found) == ["logits", "boxes", "classes"]
    assert type(found["boxes"]) is list
    assert type(found["boxes"][1]) is tuple
    assert found["boxes"][1][0].dtype is found["logits"].dtype is torch.float32
    assert found["classes"].dtype is torch.int64


def compiled(module: Any) -> Any:
    return torch.compile(module, backend="eager")


def compiled_in_place(module: Any) -> Any:
    module.compile(backend="eager")
    return module


@pytest.mark.parametrize("compiling", [compiled, compiled_in_place])
def test_a_compiled_model_computes_in_16_bits(compiling: Callable[[Any], Any]) -> None:
    hidden_from_compiler()
    dynamo.reset()
    dynamo.utils.counters.clear()
    with applied("amp") as told:
        found = losses(compiling(model()), 5)
    with applied("amp"):
        assert found == pytest.approx(losses(model(), 5), abs=0.01)
    assert [place["what"] for place in told.applied] == ["Classifier"]
    assert not dynamo.utils.counters["graph_break"]


# ------------------------------------------------------------ left alone


def reasons(told: Any) -> list[str]:
    assert not told.applied
    return [place["because"] for place in told.left_alone]


def test_a_call_under_autocast_is_left_alone() -> None:
    module = model()
    with applied("amp", amp_dtype="fp16") as told, torch.autocast("cpu", torch.bfloat16):
        out = module(torch.ones(2, 16))
    assert out.dtype is torch.bfloat16
    assert reasons(told) == ["the script calls it under autocast"]


def test_a_model_that_trains_under_autocast_is_validated_as_the_script_has_it() -> None:
    module = model()
    with applied("amp") as told:
        with torch.autocast("cpu", torch.bfloat16):
            module(torch.ones(2, 16))
        with torch.no_grad():
            module(torch.ones(2, 16))
    assert module.computed_in is torch.float32
    assert reasons(told) == ["the script calls it under autocast"]


def test_a_script_whose_autocast_is_switched_off_is_changed() -> None:
    module = model()
    with applied("amp"), torch.autocast("cpu", enabled=False):
        module(torch.ones(2, 16))
    assert module.computed_in is torch.bfloat16


@pytest.mark.parametrize("device", ["inside", "around forward"])
def test_a_model_that_enters_autocast_itself_is_left_alone(device: str) -> None:
    class Own(Classifier):
        def forward(self, x: Any) -> Any:
            with torch.autocast("cpu", torch.bfloat16):
                return super().forward(x)

    module = Own() if device == "inside" else model()
    if device != "inside":
        module.forward = torch.autocast("cpu", torch.bfloat16)(module.forward)
    with applied("amp", amp_dtype="fp16") as told:
        for _ in range(2):
            out = module(torch.ones(2, 16))
    assert out.dtype is torch.bfloat16
    assert reasons(told) == ["it enters autocast by itself"]


def test_a_model_that_is_called_under_autocast_later_is_withdrawn() -> None:
    module = model()
    with applied("amp") as told:
        module(torch.ones(2, 16))
        with torch.autocast("cpu", torch.bfloat16):
            module(torch.ones(2, 16))
    assert [place["because"] for place in told.withdrawn] == ["the script calls it under autocast"]
    assert not told.left_alone


@pytest.mark.parametrize(
    ("cast", "kinds"),
    [
        (nn.Module.half, "float16"),
        (nn.Module.bfloat16, "bfloat16"),
        (nn.Module.double, "float64"),
        (lambda module: module.last.double(), "float32 and float64"),
    ],
)
def test_a_model_that_is_not_float32_is_left_alone(cast: Callable[[Any], Any], kinds: str) -> None:
    module = model()
    cast(module)
    with applied("amp") as told:
        module.first(torch.ones(2, 16, dtype=module.first.weight.dtype))
        with pytest.raises(RuntimeError) if "and" in kinds else applied("amp"):
            module(torch.ones(2, 16, dtype=module.first.weight.dtype))
    assert f"its parameters are {kinds}" in [place["because"] for place in told.left_alone]


def test_without_a_model_there_is_nothing_to_change() -> None:
    weight = torch.ones(3, requires_grad=True)
    with applied("amp", amp_dtype="fp16") as told:
        nn.MSELoss()(weight * 2, torch.zeros(3)).backward()
    assert weight.grad.tolist() == pytest.approx([8 / 3] * 3)
    assert told.events == []


def test_together_with_float32_a_float64_model_computes_in_16_bits() -> None:
    for names in (("amp", "float32"), ("float32", "amp")):
        module = model().double()
        with applied(names[0]) as first, applied(names[1]) as second:
            out = module(torch.ones(2, 16, dtype=torch.float64))
        assert (module.computed_in, out.dtype) == (torch.bfloat16, torch.float64)
        assert not first.left_alone + second.left_alone


def test_a_deep_copy_made_before_is_a_model_of_its_own() -> None:
    module = model()
    with applied("amp") as told:
        twin = copy.deepcopy(module)
        module(torch.ones(2, 16))
        twin(torch.ones(2, 16))
    assert twin.computed_in is torch.bfloat16
    assert len(told.applied) == 2


SCRIPT = """
    import torch
    from torch import nn

    model = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for step in range(100):
        x = torch.randn(32, 16)
        loss = nn.functional.mse_loss(model(x), x.mean(1, keepdim=True))
        optimizer.zero_grad()
        loss.backward()
        norm = nn.utils.clip_grad_norm_(model.parameters(), 0.1)
        optimizer.step()
        print(loss.item(), norm.item())
"""


@pytest.mark.slow
def test_in_a_script_recorded_losses_and_norms_are_the_unscaled_ones(tmp_path: Any) -> None:
    execution = ran(tmp_path, SCRIPT, {"amp": {"amp_dtype": "fp16"}}, 10)
    (place,) = execution.told.applied
    assert (place["what"], place["at"]["line"]) == ("Sequential", 9)
    printed = [line.split() for line in execution.printed.splitlines()]
    assert list(execution.losses[1:-1]) == [float(loss) for loss, _ in printed[1:]]  # it ends before a print
    assert all(0 < float(norm) < 1 for _, norm in printed)


class Replicas(nn.Module):
    """Computes in threads of its own as DataParallel does, which turns autocast on there: parallel_apply."""

    def __init__(self) -> None:
        super().__init__()
        self.module = model()

    def forward(self, x: Any) -> Any:
        replicas = [copy.deepcopy(self.module) for _ in range(2)]
        is_on, found = torch.is_autocast_enabled("cpu"), {}

        def work(index: int) -> None:
            with torch.autocast("cpu", torch.float16, enabled=is_on):  # a thread begins with torch's own type
                found[index] = replicas[index](x)

        threads = [threading.Thread(target=work, args=(index,)) for index in range(2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.computed_in = [found[index].dtype for index in range(2)]
        return torch.cat([found[0], found[1]])


def test_replicas_in_threads_of_their_own_compute_in_16_bits_too() -> None:
    module = Replicas()
    with applied("amp") as told:
        for _ in range(2):
            out = module(torch.ones(2, 16))
            assert out.dtype is torch.float32
            assert module.computed_in == [torch.bfloat16] * 2
    assert not told.left_alone
    assert [place["what"] for place in told.applied] == ["Replicas"]
