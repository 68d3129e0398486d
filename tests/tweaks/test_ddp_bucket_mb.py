from __future__ import annotations

import inspect
from contextlib import nullcontext

import pytest

torch = pytest.importorskip("torch")

from torch import distributed, nn
from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook
from torch.nn.parallel import DistributedDataParallel

from tests.support import tweak_ranks
from tests.support.applying import applied

pytestmark = pytest.mark.process

MB = 2**18  # float32 numbers


@pytest.fixture(scope="module")
def found():
    return tweak_ranks.together(__name__)


def layers():
    torch.manual_seed(0)
    return nn.Sequential(*(nn.Linear(512, 512) for _ in range(4)))  # 1 MiB each, and a little for the bias


def train(**options):
    """How many buckets the last of several passes exchanged, and the weights."""
    model = DistributedDataParallel(layers(), **options)
    buckets = []

    def counting(group, bucket):
        buckets.append(bucket.index())
        return allreduce_hook(group, bucket)

    model.register_comm_hook(None, counting)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    random = torch.Generator().manual_seed(distributed.get_rank())
    for _ in range(3):
        buckets.clear()
        model(torch.randn(8, 512, generator=random)).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad()
    return len(buckets), [value.detach() for value in model.parameters()], list(model.state_dict())


def on_two_ranks_exchange():
    results = []
    for tweak in (nullcontext(), applied("ddp_bucket_mb", 2), applied("ddp_bucket_mb", 1)):
        with tweak as told:
            results.append((*train(), told and told.applied))
    (_, weights, names, _), *others = results
    return {
        "buckets": [each[0] for each in results],
        "same": all(torch.equal(*pair) for each in others for pair in zip(weights, each[1], strict=True)),
        "names": all(each[2] == names for each in others),
        "applied": [place for each in others for place in each[3]],
    }


def test_gradients_are_exchanged_in_buckets_of_that_size(found):
    """As torch has it: a first bucket of 1 MiB and another one for the rest; one of N is full where it exceeds N."""
    assert found["exchange"]["buckets"] == [2, 2, 4]
    assert [(place["was"], place["now"]) for place in found["exchange"]["applied"]] == [(25, 2), (25, 1)]


def test_two_processes_learn_the_same_bit_for_bit(found):
    assert found["exchange"]["same"]
    assert found["exchange"]["names"]


@pytest.fixture
def group():
    distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
    yield
    distributed.destroy_process_group()


def test_gradients_that_fit_into_one_bucket_are_left_alone(group):
    with applied("ddp_bucket_mb", 64) as told:
        model = DistributedDataParallel(nn.Linear(8, 8), bucket_cap_mb=8)
    assert model.bucket_bytes_cap == 8 * 2**20
    assert [place["because"] for place in told.left_alone] == ["all gradients fit into one bucket of 8 MB"]


def test_parameters_that_are_not_trained_have_no_gradients_to_exchange(group):
    network = layers()
    network[:3].requires_grad_(False)
    with applied("ddp_bucket_mb", 2) as told:
        DistributedDataParallel(network, bucket_cap_mb=16)
    assert not told.applied


@pytest.mark.parametrize(
    ("given", "because"),
    [
        ({"bucket_cap_mb": 3}, "it is already 3"),
        ({"bucket_cap_mb_list": [1, 2]}, "the script sets the size of each bucket"),
    ],
)
def test_a_size_of_the_scripts_own_is_left_alone(group, given, because):
    if (
        "bucket_cap_mb_list" in given
        and "bucket_cap_mb_list" not in DistributedDataParallel.__init__.__code__.co_varnames
    ):
        pytest.skip("this torch has one size for all buckets")
    with applied("ddp_bucket_mb", 3) as told:
        DistributedDataParallel(layers(), **given)
    assert [place["because"] for place in told.left_alone] == [because]


def test_a_size_given_by_position_is_changed(group):
    _, *parameters = inspect.signature(DistributedDataParallel).parameters.values()  # torch 2.5 adds one
    names = [parameter.name for parameter in parameters]
    before = [parameter.default for parameter in parameters[: names.index("bucket_cap_mb")]]
    with applied("ddp_bucket_mb", 2) as told:
        model = DistributedDataParallel(layers(), *before, 7)
    assert model.bucket_bytes_cap == 2 * 2**20
    assert told.applied[0]["was"] == 7


def test_a_call_that_torch_refuses_is_refused_as_before(group):
    with applied("ddp_bucket_mb", 2), pytest.raises(TypeError, match="bucket_size"):
        DistributedDataParallel(layers(), bucket_size=3)
