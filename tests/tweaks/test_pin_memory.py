"""--pin-memory: batches in page-locked memory, where a device could read them."""

from __future__ import annotations

from unittest import mock

import pytest

from tests.support import loading
from tests.support.applying import applied

torch = pytest.importorskip("torch")
from torch.utils.data import DataLoader

pytestmark = pytest.mark.process

HAS_CUDA = torch.cuda.is_available()


def device(kind: str | None) -> mock._patch_dict:
    """A process that can use such a device."""
    fake = mock.Mock()
    fake.is_available.return_value = kind is not None
    fake.current_accelerator.return_value.type = kind
    return mock.patch.dict(vars(torch), accelerator=fake)


def test_a_loader_is_told_to_pin_where_there_is_a_device() -> None:
    with device("cuda"), applied("pin_memory") as told:
        assert DataLoader(range(4)).pin_memory is True
    (place,) = told.applied
    assert (place["what"], place["was"], place["now"]) == ("DataLoader pin_memory", False, True)
    assert place["at"]["file"] == __file__


@pytest.mark.parametrize("kind", [None, "mps"])
def test_without_a_device_that_reads_pinned_memory_loaders_are_left_alone(kind: str | None) -> None:
    with device(kind), applied("pin_memory") as told:
        assert DataLoader(range(4)).pin_memory is False
    assert not told.applied
    assert "no device to copy to" in told.left_alone[0]["because"]


def test_a_loader_that_pins_already_is_left_alone() -> None:
    with device("cuda"), applied("pin_memory") as told:
        DataLoader(range(4), pin_memory=True)
    assert not told.applied
    assert told.left_alone[0]["because"] == "pin_memory is already True"


@pytest.mark.skipif(not HAS_CUDA, reason="only a device pins memory")
def test_batches_are_pinned_and_losses_stay_the_same() -> None:
    original = loading.losses(epochs=2)
    with applied("pin_memory"):
        assert next(iter(DataLoader(range(4)))).is_pinned()
        assert loading.losses(epochs=2) == original
