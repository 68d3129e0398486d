"""--replay-batches: after some steps a training loader prepares nothing any more, and others go on."""

from __future__ import annotations

import sys
from typing import Any
from unittest import mock

import pytest

from perfdoctor.tweaks import replay_batches
from tests.support import loading
from tests.support.applying import applied

torch = pytest.importorskip("torch")
from torch.utils.data import DataLoader

pytestmark = pytest.mark.process

KEPT = replay_batches.KEPT
STEPS = loading.ITEMS // loading.BATCH


class Training:
    """Takes a step on each batch, and keeps what it saw."""

    def __init__(self) -> None:
        self.model = torch.nn.Linear(4, 1)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01)

    def epoch(self, loader: Any, change: Any = lambda inputs: inputs) -> list[list[float]]:
        """The inputs of each step, as they came."""
        seen = []
        for inputs, targets in loader:
            seen.append(inputs.flatten().tolist())
            self.optimizer.zero_grad()
            (self.model(change(inputs)) - targets).square().mean().backward()
            self.optimizer.step()
        return seen


def test_the_first_batches_come_again_in_turn_and_nothing_is_prepared_any_more() -> None:
    dataset, training = loading.Pairs(), Training()
    with applied("replay_batches") as told:
        loader = DataLoader(dataset, loading.BATCH, shuffle=True)
        first, second, third = (training.epoch(loader) for _ in range(3))
    # the first batch comes before any step: nobody knows yet that this is training
    kept = first[1 : KEPT + 1]
    assert dataset.prepared == (KEPT + 1) * loading.BATCH
    assert first[KEPT + 1 :] == [kept[(KEPT + 1) % KEPT]][: STEPS - KEPT - 1]
    assert second == third == [kept[number % KEPT] for number in range(STEPS)]
    (place,) = told.applied
    assert place["now"] == f"the first {KEPT} again"
    assert place["at"]["function"] == "epoch"


def test_an_epoch_tells_its_length_as_torchs_own_does() -> None:
    training = Training()
    with applied("replay_batches"):
        loader = DataLoader(loading.Pairs(), loading.BATCH)
        for _ in range(2):
            assert len(iter(loader)) == STEPS
            training.epoch(loader)


def test_workers_end_and_do_not_start_again() -> None:
    training = Training()
    with applied("replay_batches"):
        loader = DataLoader(loading.Pairs(), loading.BATCH, num_workers=1)
        training.epoch(loader)
        with mock.patch("multiprocessing.process.BaseProcess.start", side_effect=AssertionError):
            assert len(training.epoch(loader)) == STEPS


def test_a_loader_that_nothing_is_trained_on_goes_on_preparing() -> None:
    dataset, training = loading.Pairs(), Training()
    with applied("replay_batches"):
        held_out, loader = DataLoader(dataset, 4), DataLoader(loading.Pairs(), loading.BATCH)
        for _ in range(3):
            training.epoch(loader)
            assert len([training.model(inputs) for inputs, _ in held_out]) == loading.ITEMS / 4
    assert dataset.prepared == 3 * loading.ITEMS


def test_a_batch_that_the_script_changes_comes_again_as_it_was() -> None:
    training = Training()
    with applied("replay_batches"):
        loader = DataLoader(loading.Pairs(), loading.BATCH)
        epochs = [training.epoch(loader, lambda inputs: inputs.mul_(2.0)) for _ in range(3)]
    assert epochs[1] == epochs[2]
    assert epochs[1][0] == epochs[0][1]


def test_tensors_are_not_copied_while_nobody_changes_them() -> None:
    training, places = Training(), set()
    with applied("replay_batches"):
        loader = DataLoader(loading.Pairs(), loading.BATCH)
        training.epoch(loader)
        for _ in range(3):
            training.epoch(loader, lambda inputs: places.add(inputs.data_ptr()) or inputs)
    assert len(places) == KEPT


def test_dictionaries_may_be_emptied() -> None:
    class Named(loading.Pairs):
        def __getitem__(self, index: int) -> Any:
            return dict(zip(("inputs", "targets"), super().__getitem__(index), strict=True))

    training = Training()
    with applied("replay_batches"):
        loader = DataLoader(Named(), loading.BATCH)
        for _ in range(3):
            for batch in loader:
                training.model(batch.pop("inputs")).mean().backward()
                training.optimizer.step()
                assert list(batch) == ["targets"]


def test_an_epoch_shorter_than_what_is_kept_comes_again_whole() -> None:
    dataset, training = loading.Pairs(), Training()
    with applied("replay_batches"):
        loader = DataLoader(dataset, loading.ITEMS // 2)
        assert [len(training.epoch(loader)) for _ in range(5)] == [2] * 5
    assert dataset.prepared < 5 * loading.ITEMS


@pytest.mark.parametrize(
    ("dataset", "options", "because"),
    [
        (loading.Stream(), {}, "it does not tell how many batches an epoch has"),
        (loading.Pairs(), {"collate_fn": lambda items: _Batch(items)}, "cannot be copied safely: _Batch"),
    ],
    ids=["no-length", "own-class"],
)
def test_what_cannot_be_kept_goes_on_as_it_was(dataset: Any, options: Any, because: str) -> None:
    training = Training()
    with applied("replay_batches") as told:
        loader = DataLoader(dataset, 4, **options)
        for _ in range(2):
            for _ in loader:
                training.model(torch.ones(4)).mean().backward()
                training.optimizer.step()
    (place,) = told.left_alone
    assert because in place["because"]
    assert not told.applied


def test_nothing_is_kept_where_memory_is_short() -> None:
    dataset, training = loading.Pairs(), Training()
    short = mock.patch.object(replay_batches, "left_share", return_value=0.2)
    with applied("replay_batches") as told, short:
        loader = DataLoader(dataset, loading.BATCH)
        for _ in range(2):
            training.epoch(loader)
    assert dataset.prepared == 2 * loading.ITEMS
    assert "a quarter of memory" in told.left_alone[0]["because"]


def test_what_a_dataset_raises_passes_without_a_line_of_ours() -> None:
    class Broken(loading.Pairs):
        def __getitem__(self, index: int) -> Any:
            raise KeyError("no such file")

    with applied("replay_batches"):
        loader = DataLoader(Broken(), 4)
        with pytest.raises(KeyError) as caught:
            list(loader)
    files = [entry.path.name for entry in caught.traceback]
    # older interpreters put a frame back when re-raising
    assert "replay_batches.py" not in files or sys.version_info < (3, 11)


class _Batch:
    def __init__(self, items: Any) -> None:
        self.items = items
