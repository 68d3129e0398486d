from __future__ import annotations

import copy
from contextlib import suppress

import pytest

torch = pytest.importorskip("torch")

from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel

from tests.support import tweak_ranks
from tests.support.applying import applied

pytestmark = pytest.mark.process

STEPS = 50
FLOAT16 = 2.0**-11  # of a number: what rounding it to float16 can change


@pytest.fixture(scope="module")
def found():
    return tweak_ranks.together(__name__)


def network(dtype=torch.float32):
    torch.manual_seed(0)
    return DistributedDataParallel(nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1)).to(dtype))


def train(model, steps=STEPS):
    """The losses, and the gradients of the first step."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    random = torch.Generator().manual_seed(distributed.get_rank())
    losses, first = [], []
    for _ in range(steps):
        batch = torch.randn(16, 8, generator=random).to(next(model.parameters()).dtype)
        loss = (model(batch) - batch.sum(1, keepdim=True)).square().mean()
        loss.backward()
        first = first or [value.grad.clone() for value in model.parameters()]
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return losses, first


def on_two_ranks_halves():
    plain = network()
    losses, first = train(plain)
    with applied("ddp_compress", "fp16") as told:
        short = network()
        short_losses, short_first = train(short)
    pairs = list(zip(first, short_first, strict=True))
    return {
        "applied": [(place["was"], place["now"], place["at"]["function"]) for place in told.applied],
        "short": all(torch.equal(ours, ours.half().float()) for _, ours in pairs),
        "exact": any(torch.equal(*pair) for pair in pairs),
        "off": max(((ours - theirs).abs() / theirs.abs()).max().item() for theirs, ours in pairs),
        "agree": all(tweak_ranks.agree(value.detach()) for value in short.parameters()),
        "losses": max(abs(a - b) / a for a, b in zip(losses, short_losses, strict=True)),
        "names": list(short.state_dict()) == list(plain.state_dict()),
        "copies": all(
            torch.equal(*pair)
            for pair in zip(short.parameters(), copy.deepcopy(short).parameters(), strict=True)
        ),
    }


def test_gradients_travel_as_halves(found):
    assert found["halves"]["applied"] == [["as they are", "fp16", "network"]]
    assert found["halves"]["short"]
    assert not found["halves"]["exact"]
    assert found["halves"]["agree"]


def test_they_are_rounded_and_no_more(found):
    """Both ranks round once, halve without loss, and add up with one more rounding."""
    assert (
        found["halves"]["off"] < 64 * FLOAT16
    )  # where large ones cancel, the rest is rounded by their measure
    assert found["halves"]["losses"] < 0.01


def test_the_model_keeps_its_state_and_can_be_copied(found):
    assert found["halves"]["names"]
    assert found["halves"]["copies"]


def on_two_ranks_own_hook():
    from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook

    with applied("ddp_compress", "fp16") as told:
        model = network()
        model.register_comm_hook(None, allreduce_hook)
        train(model, steps=2)
    return [place["because"] for place in told.left_alone]


def test_a_hook_that_the_script_registers_after_the_constructor_is_left_alone(found):
    assert found["own_hook"] == ["the script synchronises them with allreduce_hook"]


def on_two_ranks_in_backward():
    from torch.distributed.optim import _apply_optimizer_in_backward

    with applied("ddp_compress", "fp16") as told:
        layers = nn.Linear(8, 1)
        _apply_optimizer_in_backward(torch.optim.SGD, layers.parameters(), {"lr": 0.1})
        with suppress(RuntimeError):  # a CUDA build without a device cannot set up its own hook
            DistributedDataParallel(layers)(torch.ones(4, 8))
    return [place["because"] for place in told.left_alone]


def test_an_optimizer_inside_backward_is_left_alone(found):
    assert found["in_backward"] == ["the script synchronises them with apply_optimizer_in_backward"]


def on_two_ranks_short_already():
    with applied("ddp_compress", "fp16") as told:
        train(network(torch.bfloat16), steps=1)
    return [place["because"] for place in told.left_alone]


def test_parameters_that_are_short_already_are_left_alone(found):
    assert found["short_already"] == ["they are already 16-bit numbers"]


def on_two_ranks_refused():
    with applied("ddp_compress", "bf16") as told:
        model = network()
        train(model, steps=2)
    return [place["because"] for place in told.left_alone], [place["now"] for place in told.applied]


@pytest.mark.skipif(torch.version.cuda is not None, reason="torch registers its hook here")
def test_bfloat16_is_left_alone_where_torch_refuses_it(found):
    (because,), applied_to = found["refused"]
    assert because.startswith("torch refuses: BF16")
    assert not applied_to


def on_two_ranks_validated_first():
    with applied("ddp_compress", "fp16") as told:
        model = network()
        with torch.no_grad():
            model(torch.ones(1, 8))
        before = len(told.applied)
        train(model, steps=1)
    return before, len(told.applied)


def test_passes_without_gradients_do_not_count_as_the_first(found):
    assert found["validated_first"] == [0, 1]


def test_a_process_that_is_alone_has_nothing_to_compress():
    distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
    with applied("ddp_compress", "fp16") as told:
        train(network(), steps=1)
    distributed.destroy_process_group()
    assert [place["because"] for place in told.left_alone] == ["there is only one process"]
