"""--persistent-workers: the same processes prepare every epoch."""

from __future__ import annotations

from pathlib import Path

import pytest

from perfdoctor.tweaks._draws import UNSEEDED
from tests.support import loading
from tests.support.applying import applied, ran

torch = pytest.importorskip("torch")
from torch.utils.data import DataLoader

pytestmark = pytest.mark.process


def epochs(loader: DataLoader) -> tuple[set[int], set[int]]:
    """The processes that prepared two epochs."""
    return set(loading.values(loader)), set(loading.values(loader))


def test_the_same_workers_prepare_every_epoch() -> None:
    first, second = epochs(DataLoader(loading.Processes(), 4, num_workers=1))
    assert not first & second
    with applied("persistent_workers") as told:
        first, second = epochs(DataLoader(loading.Processes(), 4, num_workers=1))
    assert first == second
    (place,) = told.applied
    assert (place["what"], place["was"], place["now"]) == ("DataLoader persistent_workers", False, True)
    assert place["at"]["function"] == "test_the_same_workers_prepare_every_epoch"


def test_losses_stay_the_same_bit_for_bit_over_epochs() -> None:
    original = loading.losses(num_workers=1)
    with applied("persistent_workers"):
        assert loading.losses(num_workers=1) == original


DRAWING = """
    import random
    from torch.utils.data import DataLoader, Dataset
    class Drawing(Dataset):
        def __len__(self): return 8
        def __getitem__(self, index): return index + random.random()
    for _ in range(2):
        list(DataLoader(Drawing(), 4, num_workers=WORKERS))
"""


@pytest.mark.parametrize(("workers", "reasons"), [(1, {UNSEEDED}), (0, set())])
def test_random_numbers_drawn_in_workers_make_other_results(
    tmp_path: Path, workers: int, reasons: set[str]
) -> None:
    script = ran(tmp_path, DRAWING.replace("WORKERS", str(workers)), {"persistent_workers": {}})
    told = [event for event in script.told.events if event.get("outcome") == "may_differ"]
    assert {event["because"] for event in told} == reasons


def test_a_generator_of_the_loaders_own_shuffles_as_before() -> None:
    def order() -> list[int]:
        shuffler = torch.Generator().manual_seed(3)
        loader = DataLoader(range(20), 4, shuffle=True, num_workers=1, generator=shuffler)
        return loading.values(loader) + loading.values(loader)

    original = order()
    with applied("persistent_workers"):
        assert order() == original


@pytest.mark.parametrize("order", [("workers", "persistent_workers"), ("persistent_workers", "workers")])
def test_workers_asked_for_beside_it_persist_in_whichever_order(order: tuple[str, str]) -> None:
    values = {"workers": (2,), "persistent_workers": ()}
    with applied(order[0], *values[order[0]]), applied(order[1], *values[order[1]]):
        first, second = epochs(DataLoader(loading.Processes(), 4))
    assert first == second
    assert len(first) == 2


@pytest.mark.parametrize("name", ["persistent_workers", "cache_dataset"])
def test_a_loader_that_is_gone_over_twice_at_once_has_all_its_batches(name: str) -> None:
    def pairs() -> list[list[tuple[int, int]]]:
        torch.manual_seed(0)
        loader = DataLoader(range(20), 4, shuffle=True, num_workers=1)
        return [
            [(int(i), int(j)) for a, b in zip(loader, loader, strict=True) for i, j in zip(a, b, strict=True)]
            for _ in range(3)
        ]

    original = pairs()
    with applied(name) as told:
        assert pairs() == original
    (place,) = told.withdrawn
    assert place["because"].startswith("the script begins to go over it again while")
    assert place["at"] == told.applied[0]["at"]


def test_workers_persist_where_an_epoch_is_left_before_its_end() -> None:
    def process(loader: DataLoader) -> int:
        for batch in loader:
            return int(batch[0])
        raise AssertionError

    with applied("persistent_workers") as told:
        loader = DataLoader(loading.Processes(), 4, num_workers=1)
        assert process(loader) == process(loader)
    assert not told.withdrawn


def test_a_loader_without_workers_is_left_alone() -> None:
    with applied("persistent_workers") as told:
        assert loading.values(DataLoader(range(4))) == list(range(4))
    assert not told.applied
    assert told.left_alone[0]["because"] == "it has no workers"


def test_a_loader_whose_workers_persist_is_left_alone_and_draws_nothing() -> None:
    original = loading.losses(num_workers=1, persistent_workers=True, epochs=3)
    with applied("persistent_workers") as told:
        assert loading.losses(num_workers=1, persistent_workers=True, epochs=3) == original
    assert told.left_alone[0]["because"] == "persistent_workers is already True"


def test_a_loader_that_accelerate_builds_anew_shuffles_as_before() -> None:
    accelerate = pytest.importorskip("accelerate")

    def order() -> list[int]:
        torch.manual_seed(0)
        loader = DataLoader(range(20), 4, shuffle=True, num_workers=1)
        prepared = accelerate.data_loader.prepare_data_loader(loader, put_on_device=False)
        return loading.values(prepared) + loading.values(prepared)

    original = order()
    with applied("persistent_workers") as told:
        assert order() == original
    assert len(told.applied) == 1
    assert not told.left_alone
