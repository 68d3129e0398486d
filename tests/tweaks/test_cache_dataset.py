"""--cache-dataset: an item is prepared once, and what trains sees no difference."""

from __future__ import annotations

import random
import weakref
from pathlib import Path
from typing import Any
from unittest import mock

import pytest

from perfdoctor.tweaks import cache_dataset
from perfdoctor.tweaks._draws import UNSEEDED
from tests.support import loading
from tests.support.applying import Told, applied, ran

numpy = pytest.importorskip("numpy")
torch = pytest.importorskip("torch")
from torch.utils.data import DataLoader, Subset, TensorDataset

pytestmark = pytest.mark.process

ITEMS, PROVEN = loading.ITEMS, cache_dataset.PROVEN


class AtOnce(loading.Pairs):
    """Gives a batch's items at once."""

    def __getitems__(self, indices: list[int]) -> Any:
        return [self[index] for index in indices]


class Noisy(loading.Pairs):
    """Draws random numbers from `source` for each item."""

    def __init__(self, source: Any) -> None:
        super().__init__()
        self.source = source

    def __getitem__(self, index: int) -> Any:
        inputs, targets = super().__getitem__(index)
        return inputs + self.source(), targets


def twice(dataset: Any, **options: Any) -> tuple[list[Any], list[Any]]:
    """What a loader gives in two epochs."""
    loader = DataLoader(dataset, loading.BATCH, **options)
    return list(loader), list(loader)


def reasons(told: Told) -> list[str]:
    return [place["because"] for place in told.left_alone]


def test_items_are_prepared_once_and_a_few_again_to_see_that_they_are_the_same() -> None:
    dataset = loading.Pairs()
    with applied("cache_dataset") as told:
        loading.losses(dataset)
    assert dataset.prepared == ITEMS + PROVEN
    (place,) = told.applied
    assert (place["what"], place["now"]) == ("items of Pairs", "cached in memory")
    assert place["at"]["function"] == "losses"
    assert not told.left_alone


@pytest.mark.parametrize("options", [{}, {"num_workers": 1}], ids=["here", "in-a-worker"])
def test_losses_stay_the_same_bit_for_bit(options: dict[str, Any]) -> None:
    original = loading.losses(**options)
    with applied("cache_dataset"):
        assert loading.losses(**options) == original


def test_the_scripts_dataset_stays_what_it_is() -> None:
    dataset = loading.Pairs()
    with applied("cache_dataset"):
        loader = DataLoader(dataset, 4)
        list(loader)
        assert loader.dataset is dataset
        assert type(dataset) is loading.Pairs
        assert vars(dataset).keys() == {"prepared", "pairs"}
        before = dataset.prepared
        dataset[0]
        assert dataset.prepared == before + 1


@pytest.mark.parametrize(
    "wrap", [AtOnce, lambda: Subset(loading.Pairs(), range(ITEMS))], ids=["own", "subset"]
)
def test_datasets_that_give_batches_of_items_at_once_are_kept_too(wrap: Any) -> None:
    original = loading.losses(wrap())
    dataset = wrap()
    with applied("cache_dataset"):
        assert loading.losses(dataset) == original
    assert getattr(dataset, "dataset", dataset).prepared == ITEMS + PROVEN


def test_a_worker_persists_so_that_its_items_survive_the_epoch() -> None:
    class Counted(loading.Processes):
        def __init__(self) -> None:
            self.prepared = torch.zeros(1).share_memory_()

        def __getitem__(self, index: int) -> int:
            self.prepared += 1
            return super().__getitem__(index)

    dataset = Counted()
    with applied("cache_dataset"):
        loader = DataLoader(dataset, 4, num_workers=1)
        processes = {process for _ in range(4) for process in loading.values(loader)}
    assert loader.persistent_workers
    assert len(processes) == 1
    assert dataset.prepared == ITEMS + PROVEN


SOURCES = {"random": random.random, "torch": lambda: torch.rand(()), "numpy": lambda: numpy.random.random()}


@pytest.mark.parametrize("source", SOURCES.values(), ids=SOURCES)
def test_a_dataset_that_draws_random_numbers_is_left_alone(source: Any) -> None:
    def draw() -> list[float]:
        random.seed(1)
        numpy.random.seed(1)
        return loading.losses(Noisy(source), epochs=2)

    original = draw()
    with applied("cache_dataset") as told:
        assert draw() == original
    assert not told.applied
    assert reasons(told) == ["they are drawn with random numbers"]


def test_a_generator_of_the_datasets_own_is_found_when_items_come_again() -> None:
    def own() -> Any:
        return Noisy(random.Random(1).random)

    original = loading.losses(own(), epochs=3)
    with applied("cache_dataset") as told:
        assert loading.losses(own(), epochs=3) == original
    assert "differed when read again" in told.withdrawn[0]["because"]
    assert not told.left_alone


def test_an_iterable_dataset_is_left_alone() -> None:
    with applied("cache_dataset") as told:
        assert loading.values(DataLoader(loading.Stream())) == list(range(12))
    assert not told.applied
    assert "no items" in reasons(told)[0]


def test_a_dataset_that_is_read_by_whole_batches_is_left_alone() -> None:
    data = TensorDataset(torch.arange(8))
    batches = [[0, 1], [2, 3]]
    with applied("cache_dataset") as told:
        loader = DataLoader(data, sampler=batches, batch_size=None)
        assert [batch[0].tolist() for batch in loader] == batches
    assert reasons(told) == ["it is read by whole batches"]


def test_items_that_cannot_be_copied_for_sure_are_left_alone() -> None:
    class Opaque:
        pass

    with applied("cache_dataset") as told:
        first, second = twice([Opaque()] * 4, collate_fn=list)
    assert first == second
    assert reasons(told) == ["they hold something that cannot be copied safely: Opaque"]


def test_a_collate_function_may_change_the_items_it_is_given() -> None:
    def collate(items: Any) -> Any:
        for item in items:
            item["x"].mul_(2)
            item["x"].add_(item.pop("y"))
        return torch.stack([item["x"] for item in items])

    class Records(loading.Pairs):
        def __getitem__(self, index: int) -> Any:
            x, y = super().__getitem__(index)
            return {"x": x.clone(), "y": y.clone()}

    dataset = Records()
    with applied("cache_dataset"):
        loader = DataLoader(dataset, 4, collate_fn=collate)
        epochs = [torch.cat(list(loader)) for _ in range(4)]
    assert dataset.prepared == ITEMS + PROVEN
    assert all(torch.equal(epoch, epochs[0]) for epoch in epochs)


def test_items_are_kept_only_while_memory_is_left() -> None:
    dataset = loading.Pairs()
    left = [0.5, 0.3, 0.2]
    with (
        mock.patch.object(cache_dataset, "left_share", side_effect=left),
        mock.patch.object(cache_dataset, "LOOK_S", 0.0),
        applied("cache_dataset") as told,
    ):
        first, second = twice(dataset)
    assert [torch.equal(a, b) for (a, _), (b, _) in zip(first, second, strict=True)] == [True] * 10
    assert dataset.prepared == 2 * ITEMS
    assert len(told.applied) == 1
    assert "only 2 are cached: less than a quarter" in reasons(told)[0]


def test_what_a_dataset_raises_reaches_the_script() -> None:
    class Broken(loading.Pairs):
        def __getitem__(self, index: int) -> Any:
            raise KeyError("no such file")

    with applied("cache_dataset") as told, pytest.raises(KeyError, match="no such file"):
        next(iter(DataLoader(Broken())))
    assert not told.applied + told.left_alone


def test_items_go_when_their_dataset_goes() -> None:
    with applied("cache_dataset"):
        dataset = loading.Pairs()
        twice(dataset)
        gone = weakref.ref(dataset)
        del dataset
    assert gone() is None


@pytest.mark.parametrize("order", [("workers", "cache_dataset"), ("cache_dataset", "workers")])
def test_workers_asked_for_beside_it_persist_in_whichever_order(order: tuple[str, str]) -> None:
    values = {"workers": (1,), "cache_dataset": ()}
    original = loading.losses()
    with applied(order[0], *values[order[0]]), applied(order[1], *values[order[1]]):
        assert DataLoader(loading.Pairs()).persistent_workers
        assert loading.losses() == original


SCRIPT = """
import torch
from torch.utils.data import DataLoader, Dataset

class Items(Dataset):
    def __len__(self):
        return 8
    def __getitem__(self, index):
        return torch.full((4,), float(index))

class Noisy(Items):
    def __getitem__(self, index):
        return super().__getitem__(index) + torch.rand(4)

if __name__ == "__main__":
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
    for data in (Items(), Noisy()):
        loader = DataLoader(data, batch_size=4, num_workers=2)
        for batch in loader:
            optimizer.zero_grad()
            model(batch).square().mean().backward()
            optimizer.step()
"""
LINE = SCRIPT[: SCRIPT.index("loader =")].count("\n") + 1


def test_what_workers_find_out_is_told_by_the_first_of_them(tmp_path: Any) -> None:
    told = ran(tmp_path, SCRIPT, {"cache_dataset": {}}).told
    assert [place["what"] for place in told.applied] == ["DataLoader persistent_workers", "items of Items"]
    assert [place["what"] for place in told.left_alone] == ["items of Noisy"]
    assert [place["at"]["line"] for place in told.applied + told.left_alone] == 3 * [LINE]


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
def test_random_numbers_drawn_in_workers_that_persist_make_other_results(
    tmp_path: Path, workers: int, reasons: set[str]
) -> None:
    script = ran(tmp_path, DRAWING.replace("WORKERS", str(workers)), {"cache_dataset": {}})
    told = [event for event in script.told.events if event.get("outcome") == "may_differ"]
    assert {event["because"] for event in told} == reasons


def test_workers_that_are_made_to_persist_are_told() -> None:
    with applied("cache_dataset") as told:
        DataLoader(loading.Pairs(), 4, num_workers=1)
    (place,) = told.applied
    assert (place["what"], place["was"], place["now"]) == ("DataLoader persistent_workers", False, True)
