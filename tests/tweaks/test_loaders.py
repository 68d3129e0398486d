"""What the tweaks of loaders share."""

from __future__ import annotations

import inspect
import sys
from types import ModuleType
from typing import Any
from unittest import mock

import pytest

from perfdoctor.tweaks import _loaders
from tests.support import loading
from tests.support.applying import applied

torch = pytest.importorskip("torch")
from torch.utils.data import DataLoader

pytestmark = pytest.mark.process


class StatefulDataLoader(DataLoader):  # type: ignore[type-arg]
    """A loader whose constructor does all by itself, as torchdata's."""

    def __init__(self, dataset: Any, batch_size: int = 1, *, num_workers: int = 0, snapshot: int = 1) -> None:
        twin: Any = super().__new__(DataLoader)
        ORIGINAL(twin, dataset, batch_size, num_workers=num_workers)
        vars(self).update(vars(twin))
        self.snapshot = snapshot


ORIGINAL = DataLoader.__init__


@pytest.fixture
def torchdata() -> Any:
    module = ModuleType(_loaders.STATEFUL)
    module.StatefulDataLoader = StatefulDataLoader  # type: ignore[attr-defined]
    with mock.patch.dict(sys.modules, {_loaders.STATEFUL: module}):
        yield module


@pytest.mark.usefixtures("torchdata")
def test_loaders_of_torchdata_are_changed_too() -> None:
    with applied("workers", 1) as workers, applied("prefetch", 3) as prefetch:
        loader = StatefulDataLoader(range(8), 4, snapshot=2)
        assert (loader.num_workers, loader.prefetch_factor, loader.snapshot) == (1, 3, 2)
        assert loading.values(loader) == list(range(8))
    assert len(workers.applied) == len(prefetch.applied) == 1
    assert "__init__" in vars(StatefulDataLoader)


def test_everything_is_as_it_was_afterwards() -> None:
    base = torch.utils.data.dataloader._BaseDataLoaderIter
    before = DataLoader.__init__, DataLoader.__iter__, base._reset
    with applied("batch_size", 2), applied("cache_dataset"), applied("persistent_workers"):
        assert DataLoader.__init__ is not before[0]
    assert (DataLoader.__init__, DataLoader.__iter__, base._reset) == before


def test_the_signature_of_the_constructor_stays_the_same() -> None:
    original = inspect.signature(DataLoader.__init__)
    with applied("workers", 2), applied("prefetch", 2), applied("batch_size", 2):
        assert inspect.signature(DataLoader.__init__) == original


def test_a_loader_whose_constructor_failed_is_not_looked_at() -> None:
    with applied("batch_size", 2) as told, pytest.raises(ValueError, match="non-negative"):
        DataLoader(range(4), num_workers=-1)
    assert not told.events


def test_all_of_them_together_leave_losses_as_they_are_bit_for_bit() -> None:
    original = loading.losses()
    with (
        applied("prefetch", 3),
        applied("cache_dataset"),
        applied("persistent_workers"),
        applied("workers", 2),
    ):
        assert loading.losses() == original
