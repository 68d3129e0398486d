"""--workers: other processes prepare the same batches."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest

from perfdoctor.tweaks.workers import DRAWS, PARTS, shares_itself_out
from tests.support import loading
from tests.support.applying import applied, ran

torch = pytest.importorskip("torch")
from torch.utils.data import BatchSampler, DataLoader, SequentialSampler, get_worker_info

pytestmark = pytest.mark.process


class Shared(loading.Stream):
    """Each worker gives its share."""

    def __iter__(self) -> Iterator[int]:
        return share(range(12))


class Seeded(loading.Stream):
    """Workers are told apart, for their seeds only."""

    def __iter__(self) -> Iterator[int]:
        info = get_worker_info()
        torch.manual_seed(0 if info is None else info.seed)
        return iter(range(12))


class Wrapped(loading.Stream):
    """What it wraps may share itself out; who knows?"""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def __iter__(self) -> Iterator[int]:
        yield from self.inner


def share(values: Any) -> Iterator[int]:
    info = get_worker_info()
    return iter(values) if info is None else itertools.islice(values, info.id, None, info.num_workers)


DRAWING = """
import random, numpy, torch
class Items(torch.utils.data.Dataset):
    def __len__(self): return 24
    def __getitem__(self, index): return torch.full((4,), float(DRAW))
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
for batch in torch.utils.data.DataLoader(Items(), batch_size=4, shuffle=True):
    optimizer.zero_grad()
    model(batch).sum().backward()
    optimizer.step()
"""


class Nested(loading.Processes):
    """Builds a loader of its own in the worker."""

    def __getitem__(self, index: int) -> int:
        return DataLoader([index]).num_workers


def test_batches_come_from_so_many_other_processes() -> None:
    with applied("workers", 2) as told:
        loader = DataLoader(loading.Processes(), 4)
        assert len(set(loading.values(loader))) == 2
    (place,) = told.applied
    assert (place["what"], place["was"], place["now"]) == ("DataLoader num_workers", 0, 2)
    assert place["at"]["file"] == __file__
    assert not told.left_alone


def test_losses_stay_the_same_bit_for_bit() -> None:
    original = loading.losses()
    with applied("workers", 2):
        assert loading.losses() == original
    assert len(original) == 50


class Drawing(loading.Pairs):
    """Augments each item."""

    def __getitem__(self, index: int) -> Any:
        inputs, targets = super().__getitem__(index)
        return inputs + torch.rand(4), targets


def doubts(told: Any) -> list[str]:
    return [event["because"] for event in told.events if event["outcome"] == "may_differ"]


def test_a_dataset_that_draws_random_numbers_is_noticed_once() -> None:
    with applied("workers", 0) as told:
        list(DataLoader(Drawing(), 4, num_workers=2))
    assert doubts(told) == [DRAWS]


@pytest.mark.parametrize("draw", ["random.random()", "numpy.random.rand()", "torch.rand(1)"])
def test_draws_in_workers_reach_the_record_whatever_draws_them(tmp_path: Any, draw: str) -> None:
    pytest.importorskip("numpy")
    script = ran(tmp_path, DRAWING.replace("DRAW", draw), {"workers": {"value": 2}})
    told = [event for event in script.told.events if event.get("outcome") == "may_differ"]
    assert {event["because"] for event in told} == {DRAWS}


def test_a_dataset_that_draws_nothing_promises_the_same_bits(tmp_path: Any) -> None:
    with applied("workers", 0) as told:
        list(DataLoader(loading.Pairs(), 4, num_workers=2, shuffle=True))
    assert doubts(told) == []
    script = ran(tmp_path, DRAWING.replace("DRAW", "0"), {"workers": {"value": 2}})
    assert not [event for event in script.told.events if event.get("outcome") == "may_differ"]


def test_an_iterable_dataset_that_is_shared_makes_other_batches() -> None:
    with applied("workers", 2) as told:
        DataLoader(Shared())
    with applied("workers", 1) as one:
        DataLoader(Shared())
    assert (doubts(told), doubts(one)) == ([PARTS], [])


def test_no_workers_drops_what_only_workers_have() -> None:
    options = {
        "prefetch_factor": 4,
        "persistent_workers": True,
        "timeout": 5,
        "multiprocessing_context": "fork",
    }
    with applied("workers", 0) as told:
        loader = DataLoader(range(8), num_workers=2, **options)
        assert loading.values(loader) == list(range(8))
        assert (loader.num_workers, loader.prefetch_factor, loader.persistent_workers) == (0, None, False)
    assert [(place["was"], place["now"]) for place in told.applied] == [(2, 0)]


def test_arguments_may_be_given_by_position_and_by_subclasses() -> None:
    class Mine(DataLoader):  # type: ignore[type-arg]
        def __init__(self, size: int) -> None:
            super().__init__(range(8), size, False, None, None, 0, drop_last=True)

    with applied("workers", 1):
        loader = Mine(3)
        assert type(loader) is Mine
        assert (loader.num_workers, loader.batch_size, len(loader)) == (1, 3, 2)
        assert loading.values(loader) == list(range(6))


def test_a_loader_with_as_many_workers_is_left_alone() -> None:
    with applied("workers", 2) as told:
        DataLoader(range(8), num_workers=2)
    assert not told.applied
    assert [place["because"] for place in told.left_alone] == ["num_workers is already 2"]


def test_a_batch_sampler_of_the_scripts_own_is_no_obstacle() -> None:
    batches = BatchSampler(SequentialSampler(range(8)), 3, drop_last=False)
    with applied("workers", 2):
        loader = DataLoader(range(8), batch_sampler=batches)
        assert loader.num_workers == 2
        assert [batch.tolist() for batch in loader] == [[0, 1, 2], [3, 4, 5], [6, 7]]


@pytest.mark.parametrize(
    "dataset", [loading.Stream(), Seeded(), Wrapped(Shared())], ids=["plain", "seeded", "wrapped"]
)
def test_an_iterable_dataset_that_does_not_share_itself_out_is_left_alone(dataset: Any) -> None:
    with applied("workers", 2) as told:
        assert loading.values(DataLoader(dataset)) == list(range(12))
    assert not told.applied
    assert "each worker" in told.left_alone[0]["because"]


def test_an_iterable_dataset_that_shares_itself_out_gives_every_sample_once() -> None:
    with applied("workers", 2) as told:
        loader = DataLoader(Shared())
        assert sorted(loading.values(loader)) == list(range(12))
        assert loader.num_workers == 2
    assert told.applied


def test_one_worker_goes_through_an_iterable_dataset_as_the_script_did() -> None:
    with applied("workers", 1) as told:
        assert loading.values(DataLoader(loading.Stream())) == list(range(12))
    assert [place["now"] for place in told.applied] == [1]


def test_sharing_is_found_through_methods_and_properties_too() -> None:
    class Deep(loading.Stream):
        @property
        def info(self) -> Any:
            return get_worker_info()

        @staticmethod
        def count(info: Any) -> int:
            return int(info.num_workers)

        def __iter__(self) -> Iterator[int]:
            def part() -> Iterator[int]:
                yield from range(0, 12, self.count(self.info))

            return part()

    assert shares_itself_out(Deep())
    assert not shares_itself_out(object())


def test_loaders_that_a_worker_builds_are_its_own_business() -> None:
    with applied("workers", 2):
        assert set(loading.values(DataLoader(Nested(), 8))) == {0}


def test_what_cannot_go_to_another_process_fails_as_torch_says_it() -> None:
    with applied("workers", 1) as told:
        loader = DataLoader(range(8), collate_fn=lambda items: items, multiprocessing_context="spawn")
        with pytest.raises(Exception, match="lambda"):
            iter(loader)
    assert told.applied


def test_arguments_that_torch_refuses_are_refused_by_torch() -> None:
    with applied("workers", 2):
        with pytest.raises(TypeError, match="batchsize"):
            DataLoader(range(8), batchsize=4)
        with pytest.raises(ValueError, match="mutually exclusive"):
            DataLoader(range(8), shuffle=True, sampler=SequentialSampler(range(8)))


def test_a_loader_that_accelerate_builds_anew_is_told_once() -> None:
    accelerate = pytest.importorskip("accelerate")
    with applied("workers", 2) as told:
        loader = DataLoader(loading.Processes(), 4)
        prepared = accelerate.data_loader.prepare_data_loader(loader, put_on_device=False)
        assert prepared.num_workers == 2
        assert len(set(loading.values(prepared))) == 2
    assert len(told.applied) == 1
    assert not told.left_alone


SCRIPT = """
import torch
from torch.utils.data import DataLoader, TensorDataset

if __name__ == "__main__":
    data = TensorDataset(torch.randn(40, 4))
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.Dropout(0.2), torch.nn.Linear(4, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = DataLoader(data, batch_size=4, shuffle=True)
    for epoch in range(3):
        for (batch,) in loader:
            optimizer.zero_grad()
            model(batch).square().mean().backward()
            optimizer.step()
    print("workers", loader.num_workers)
"""


def test_a_whole_script_is_given_workers(tmp_path: Any) -> None:
    script = ran(tmp_path, SCRIPT, {"workers": {"value": 2}})
    assert script.printed == "workers 2\n"
    assert len(script.losses) == 30
    assert [place["at"]["line"] for place in script.told.applied] == [9]
