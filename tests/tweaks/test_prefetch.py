"""--prefetch: workers prepare more batches ahead."""

from __future__ import annotations

import pytest

from tests.support import loading
from tests.support.applying import applied

torch = pytest.importorskip("torch")
from torch.utils.data import DataLoader

pytestmark = pytest.mark.process


def ahead(loader: DataLoader) -> int:
    """How many batches are on their way before the first one is taken."""
    return int(iter(loader)._tasks_outstanding)


def test_each_worker_has_so_many_batches_on_its_way() -> None:
    with applied("prefetch", 5) as told:
        assert ahead(DataLoader(range(40), num_workers=2)) == 10
    (place,) = told.applied
    assert (place["what"], place["was"], place["now"]) == ("DataLoader prefetch_factor", 2, 5)
    assert place["at"]["file"] == __file__


@pytest.mark.parametrize("order", [("workers", "prefetch"), ("prefetch", "workers")])
def test_workers_asked_for_beside_it_prepare_ahead_in_whichever_order(order: tuple[str, str]) -> None:
    count = {"workers": 2, "prefetch": 3}
    with applied(order[0], count[order[0]]) as first, applied(order[1], count[order[1]]) as second:
        assert ahead(DataLoader(range(40))) == 6
    assert len(first.applied) == len(second.applied) == 1
    assert not first.left_alone + second.left_alone


@pytest.mark.parametrize("order", [("workers", "prefetch"), ("prefetch", "workers")])
def test_without_workers_there_is_nothing_to_prepare_ahead(order: tuple[str, str]) -> None:
    count = {"workers": 0, "prefetch": 3}
    with applied(order[0], count[order[0]]) as first, applied(order[1], count[order[1]]) as second:
        assert loading.values(DataLoader(range(8), num_workers=2)) == list(range(8))
    told = {order[0]: first, order[1]: second}["prefetch"]
    assert not told.applied
    assert ["no workers" in place["because"] for place in told.left_alone] == [True]


def test_a_loader_that_prepares_as_many_ahead_is_left_alone() -> None:
    with applied("prefetch", 2) as told:
        DataLoader(range(8), num_workers=1)
    assert not told.applied
    assert told.left_alone[0]["because"] == "prefetch_factor is already 2"


def test_losses_stay_the_same_bit_for_bit() -> None:
    original = loading.losses(num_workers=1)
    with applied("prefetch", 4):
        assert loading.losses(num_workers=1) == original


def test_a_loader_that_accelerate_builds_anew_is_told_once() -> None:
    accelerate = pytest.importorskip("accelerate")
    with applied("prefetch", 4) as told:
        loader = DataLoader(loading.Pairs(), num_workers=1)
        prepared = accelerate.data_loader.prepare_data_loader(loader, put_on_device=False)
        assert prepared.base_dataloader is not loader
        assert prepared.prefetch_factor == 4
    assert len(told.applied) == 1
    assert not told.left_alone
