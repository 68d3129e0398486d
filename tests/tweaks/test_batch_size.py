"""--batch-size: other batches for training, the same ones for evaluation."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support import loading
from tests.support.applying import Told, applied

torch = pytest.importorskip("torch")
from torch.utils.data import (
    BatchSampler,
    DataLoader,
    DistributedSampler,
    RandomSampler,
    Sampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)

DATA = range(24)
SHUFFLING = {
    "shuffle": lambda: {"shuffle": True},
    "random": lambda: {"sampler": RandomSampler(DATA)},
    "subset": lambda: {"sampler": SubsetRandomSampler(DATA)},
    "weighted": lambda: {"sampler": WeightedRandomSampler([1.0] * 24, 24)},
    "distributed": lambda: {"sampler": DistributedSampler(DATA, 1, 0)},  # type: ignore[arg-type]
}


def sizes(loader: Any) -> list[int]:
    return [len(batch) for batch in loader]


def reasons(told: Told) -> list[str]:
    return [place["because"] for place in told.left_alone]


@pytest.mark.parametrize("shuffling", SHUFFLING.values(), ids=SHUFFLING)
def test_a_loader_that_shuffles_has_other_batches_from_the_start(shuffling: Any) -> None:
    with applied("batch_size", 10) as told:
        loader = DataLoader(DATA, 4, **shuffling())
        assert (loader.batch_size, len(loader)) == (10, 3)
        assert sizes(loader) == [10, 10, 4]
    (place,) = told.applied
    assert (place["what"], place["was"], place["now"]) == ("DataLoader batch_size", 4, 10)
    assert place["at"]["file"] == __file__
    assert not told.left_alone


def test_each_epoch_goes_over_the_same_samples_in_the_same_order() -> None:
    def order() -> list[int]:
        torch.manual_seed(0)
        return loading.values(DataLoader(DATA, 4, shuffle=True, drop_last=True))

    original = order()
    with applied("batch_size", 8):
        assert order() == original
    with applied("batch_size", 7):
        assert order() == original[:21]


def test_the_losses_are_others() -> None:
    original = loading.losses(epochs=2)
    with applied("batch_size", 2 * loading.BATCH):
        changed = loading.losses(epochs=2)
    assert len(changed) == len(original) / 2


def test_evaluation_beside_training_is_left_alone() -> None:
    with applied("batch_size", 8) as told:
        training = DataLoader(DATA, 4, shuffle=True)
        evaluation = DataLoader(DATA, 6)
        assert set(sizes(training)) == {8}
        assert set(sizes(evaluation)) == {6}
        with torch.no_grad():
            assert set(sizes(DataLoader(DATA, 3))) == {3}
    assert len(told.applied) == 1
    assert reasons(told) == [
        "it does not shuffle, and another loader may",
        "it is iterated without gradients",
    ]
    assert [place["at"]["line"] for place in told.left_alone] == sorted(
        place["at"]["line"] for place in told.left_alone
    )


@pytest.mark.parametrize("dataset", [DATA, loading.Stream()], ids=["map", "iterable"])
def test_where_none_shuffles_the_first_that_is_iterated_with_gradients_trains(dataset: Any) -> None:
    with applied("batch_size", 6) as told:
        evaluation, training = DataLoader(DATA, 4), DataLoader(dataset, 3)
        with torch.no_grad():
            assert set(sizes(evaluation)) == {4}
        assert set(train(training)) == {6}
        assert set(train(training)) == {6}
        assert set(sizes(evaluation)) == {4}
        assert (training.batch_size, evaluation.batch_size) == (6, 4)
    assert [(place["was"], place["now"]) for place in told.applied] == [(3, 6)]


class Own(Sampler[int]):
    """A sampler of the script's own."""

    def __init__(self) -> None:
        pass

    def __len__(self) -> int:
        return len(DATA)

    def __iter__(self) -> Iterator[int]:
        return reversed(DATA)


def train(loader: Any) -> list[int]:
    """An epoch of updates; the sizes of its batches."""
    weight = torch.nn.Parameter(torch.ones(()))
    optimizer = torch.optim.SGD([weight])
    found = []
    for batch in loader:
        weight.grad = torch.ones(())
        optimizer.step()
        found.append(len(batch))
    return found


@pytest.mark.parametrize(
    ("training", "evaluation"),
    [
        pytest.param({"sampler": Own()}, {}, id="own sampler"),
        pytest.param({"dataset": loading.Stream()}, {"shuffle": True}, id="stream beside one that shuffles"),
        pytest.param({"dataset": loading.Stream()}, {}, id="stream"),
        pytest.param({}, {"dataset": loading.Stream()}, id="stream evaluates"),
    ],
)
def test_a_look_at_a_batch_of_another_loader_does_not_decide_which_one_trains(
    training: Any, evaluation: Any
) -> None:
    with applied("batch_size", 8):
        trains = DataLoader(**{"dataset": DATA, "batch_size": 4, **training})
        held_out = DataLoader(**{"dataset": DATA, "batch_size": 6, **evaluation})
        next(iter(held_out))
        assert train(trains)[0] == 8


def test_once_one_trains_no_other_is_guessed_to() -> None:
    with applied("batch_size", 8) as told:
        training, evaluation = DataLoader(DATA, 4), DataLoader(DATA, 6, sampler=Own())
        stream = DataLoader(loading.Stream(), 6)
        training_first = DataLoader(loading.Stream(), 4)
        train(training_first)
        assert sizes(evaluation)[0] == sizes(stream)[0] == 6
        assert sizes(training)[0] == 4
    assert set(reasons(told)) == {"another loader trains"}


def test_a_distributed_sampler_that_does_not_shuffle_does_not_train() -> None:
    with applied("batch_size", 6) as told:
        DataLoader(DATA, shuffle=True)
        sampler = DistributedSampler(DATA, 1, 0, shuffle=False)  # type: ignore[arg-type,var-annotated]
        assert set(sizes(DataLoader(DATA, 4, sampler=sampler))) == {4}
    assert len(told.applied) == len(told.left_alone) == 1


def test_batches_that_are_made_elsewhere_are_left_alone() -> None:
    class Batches:
        def __iter__(self) -> Iterator[list[int]]:
            return iter([[0, 1], [2]])

    own = BatchSampler(SequentialSampler(DATA), 3, drop_last=False)
    with applied("batch_size", 6) as told:
        assert set(sizes(DataLoader(DATA, batch_sampler=own))) == {3}
        assert sizes(DataLoader(DATA, batch_sampler=Batches())) == [2, 1]
        assert loading.values(DataLoader(torch.ones(3, 1), batch_size=None)) == [1, 1, 1]
    assert not told.applied
    assert reasons(told) == ["something else makes its batches"] * 3


def test_a_loader_of_this_size_is_left_alone() -> None:
    with applied("batch_size", 4) as told:
        DataLoader(DATA, 4, shuffle=True)
    assert not told.applied
    assert reasons(told) == ["batch_size is already 4"]


@pytest.mark.parametrize("shuffle", [True, False])
def test_a_loader_that_accelerate_builds_anew_is_told_once(shuffle: bool) -> None:
    accelerate = pytest.importorskip("accelerate")
    with applied("batch_size", 8) as told:
        loader = DataLoader(loading.Processes(), 4, shuffle=shuffle)
        prepared = accelerate.data_loader.prepare_data_loader(loader, put_on_device=False)
        assert set(sizes(prepared)) == {8}
    assert len(told.applied) == 1
    assert not told.left_alone


@pytest.mark.parametrize("shuffle", [True, False])
@pytest.mark.parametrize(("split", "share"), [(False, 8), (True, 4)])
def test_the_share_of_a_process_in_accelerates_batches_has_this_size(
    shuffle: bool, split: bool, share: int
) -> None:
    accelerate = pytest.importorskip("accelerate")
    with applied("batch_size", 8) as told:
        loader = DataLoader(loading.Processes(), 4, shuffle=shuffle)
        prepared = accelerate.data_loader.prepare_data_loader(
            loader, num_processes=2, process_index=0, put_on_device=False, split_batches=split
        )
        assert set(sizes(prepared)) == {share}
        assert prepared.batch_sampler.batch_size == 8
    assert len(told.applied) == 1
    assert not told.left_alone


def test_batches_that_accelerate_cannot_split_into_equal_shares_are_left_alone() -> None:
    accelerate = pytest.importorskip("accelerate")
    with applied("batch_size", 7) as told:
        prepared = accelerate.data_loader.prepare_data_loader(
            DataLoader(loading.Processes(), 4),
            num_processes=2,
            process_index=0,
            put_on_device=False,
            split_batches=True,
        )
        assert set(sizes(prepared)) == {2}
    assert reasons(told) == ["accelerate splits each batch among 2 processes"]
