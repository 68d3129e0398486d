from __future__ import annotations

from contextlib import nullcontext

import pytest

torch = pytest.importorskip("torch")

from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel

from tests.support import tweak_ranks
from tests.support.applying import applied

pytestmark = pytest.mark.process


@pytest.fixture(scope="module")
def found():
    return tweak_ranks.together(__name__)


class Branches(nn.Module):
    """The first of three layers can be left out; the last one always is."""

    def __init__(self):
        super().__init__()
        self.optional, self.used, self.unused = (nn.Linear(4, 4) for _ in range(3))

    def forward(self, batch, whole=True):
        return self.used(self.optional(batch) if whole else batch)


def network(**options):
    torch.manual_seed(0)
    return DistributedDataParallel(Branches(), **{"find_unused_parameters": True, **options})


def train(model, steps=50, skips=False):
    """The losses of steps of two passes."""
    optimizer = torch.optim.AdamW(model.parameters(), weight_decay=0.1)
    random = torch.Generator().manual_seed(distributed.get_rank())
    losses = []
    for _ in range(steps):
        for last in (False, True):
            with model.no_sync() if skips and not last else nullcontext():
                loss = model(torch.randn(8, 4, generator=random)).square().mean()
                loss.backward()
            losses.append(loss.item())
        optimizer.step()
        optimizer.zero_grad()
    return losses


def compare(**options):
    original = network()
    losses = train(original, **options)
    with applied("ddp_static_graph") as told:
        tweaked = network()
        tweaked_losses = train(tweaked, **options)
    pairs = zip(original.state_dict().values(), tweaked.state_dict().values(), strict=True)
    return {
        "static": [model.static_graph for model in (original, tweaked)],
        "searching": [model.find_unused_parameters for model in (original, tweaked)],
        "losses": losses == tweaked_losses,
        "names": list(original.state_dict()) == list(tweaked.state_dict()),
        "apart": max((ours - theirs).abs().max().item() for theirs, ours in pairs),
        "agree": all(tweak_ranks.agree(value.detach()) for value in tweaked.parameters()),
        "applied": [(place["was"], place["now"]) for place in told.applied],
    }


def on_two_ranks_trained():
    return compare()


def test_the_search_is_replaced_by_a_static_graph(found):
    assert found["trained"]["static"] == [False, True]
    assert found["trained"]["searching"] == [True, False]
    assert found["trained"]["applied"] == [[True, "static_graph"]]


def test_two_processes_learn_the_same_bit_for_bit_though_some_parameters_are_never_used(found):
    assert found["trained"]["losses"]
    assert found["trained"]["apart"] == 0
    assert found["trained"]["names"]


def on_two_ranks_skipping():
    return compare(steps=4, skips=True)


def test_a_script_whose_first_pass_would_skip_its_exchange_learns_the_same_within_rounding(found):
    assert found["skipping"]["static"] == [False, True]
    assert found["skipping"]["apart"] < 1e-6
    assert found["skipping"]["agree"]


def on_two_ranks_changing():
    with applied("ddp_static_graph"):
        model = network()
        for whole in (True, False, True):
            model(torch.ones(1, 4), whole).sum().backward()


def test_torch_stops_where_the_parameters_that_are_used_change(found):
    assert "training graph has changed" in found["changing"]


def on_two_ranks_accumulating():
    with applied("no_sync"):
        return compare(steps=6)


def test_it_goes_together_with_fewer_exchanges(found):
    assert found["accumulating"]["static"] == [False, True]
    assert found["accumulating"]["apart"] < 1e-6


@pytest.mark.parametrize(
    ("given", "because"),
    [
        ({"static_graph": True, "find_unused_parameters": False}, "its graph is already static"),
        ({"find_unused_parameters": False}, "it does not search"),
    ],
)
def test_a_model_that_does_not_search_is_left_alone(given, because):
    distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
    with applied("ddp_static_graph") as told:
        network(**given)
    distributed.destroy_process_group()
    assert [place["because"] for place in told.left_alone] == [because]
