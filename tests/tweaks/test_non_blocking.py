"""--non-blocking: the host goes on while the device copies what a loader has pinned.

There is no device here: what is pinned is a copy, and copies are noted instead of made.
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any
from unittest import mock

import pytest

from tests.support.applying import Told, applied

torch = pytest.importorskip("torch")
from torch.utils.data._utils import pin_memory as pinning

CUDA = torch.device("cuda", 0)
Call = tuple[tuple[Any, ...], dict[str, Any]]


class Device:
    """A stand-in for what a CUDA build of torch has."""

    def __init__(self) -> None:
        self.calls: list[Call] = []

    def copy(self, tensor: Any, *args: Any, **kwargs: Any) -> Any:
        self.calls.append((args, kwargs))
        return tensor

    @property
    def last(self) -> Call:
        return self.calls[-1]


@contextmanager
def on_device(version: str | None = "12.8") -> Iterator[tuple[Device, Told]]:
    device = Device()

    def copied(self: Any, *args: Any, **kwargs: Any) -> Any:
        return device.copy(self, *args, **kwargs)

    with (
        mock.patch.object(torch.version, "cuda", version),
        mock.patch.object(torch.Tensor, "to", copied),
        mock.patch.object(torch.Tensor, "cuda", copied),
        mock.patch.object(torch.Tensor, "pin_memory", lambda tensor, *device: tensor.clone()),
        mock.patch.object(torch.cuda, "set_stream", return_value=None),
        applied("non_blocking") as told,
    ):
        yield device, told


def pinned(*shape: int) -> Any:
    """A batch as a loader with `pin_memory=True` gives it."""
    return pinning.pin_memory({"images": [torch.ones(*shape)]})["images"][0]


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [
        ((CUDA,), {}),
        (("cuda",), {}),
        (("cuda:1", torch.float16), {}),
        ((0,), {}),
        ((), {"device": CUDA}),
        ((CUDA,), {"non_blocking": False}),
    ],
)
def test_a_copy_of_what_a_loader_pinned_does_not_wait(args: Any, kwargs: Any) -> None:
    with on_device() as (device, told):
        pinned(2, 2).to(*args, **kwargs)
    assert device.last == (args, {**kwargs, "non_blocking": True})
    (place,) = told.applied
    assert (place["what"], place["was"], place["now"]) == ("copy to the device non_blocking", False, True)
    assert place["at"]["file"] == __file__


def test_the_other_way_to_ask_for_it_does_not_wait_either() -> None:
    with on_device() as (device, _):
        pinned(2).cuda()
    assert device.last == ((), {"non_blocking": True})


def test_a_part_of_a_batch_does_not_wait() -> None:
    with on_device() as (device, _):
        pinned(2, 4)[:, :-1].to(CUDA)
    assert device.last[1] == {"non_blocking": True}


@pytest.mark.parametrize(
    "args", [("cpu",), (torch.float16,), (torch.ones(1),), (torch.device("cpu"),), (None,)]
)
def test_what_does_not_go_to_a_device_is_no_place(args: Any) -> None:
    with on_device() as (device, told):
        pinned(2).to(*args)
    assert device.last == (args, {})
    assert not told.events


def test_what_does_not_wait_already_is_no_place() -> None:
    with on_device() as (device, told):
        pinned(2).to(CUDA, non_blocking=True)
        pinned(2).to(CUDA, torch.float32, False)
        pinned(2).cuda(0, True)
    assert device.calls == [
        ((CUDA,), {"non_blocking": True}),
        ((CUDA, torch.float32, False), {}),
        ((0, True), {}),
    ]
    assert not told.events


def test_beside_another_tensor_the_flag_stands_at_the_second_place() -> None:
    class Other(torch.Tensor):
        device = CUDA

    other = torch.ones(1).as_subclass(Other)
    with on_device() as (device, _):
        pinned(2).to(other, True)
        pinned(2).to(other)
    assert [kwargs for _, kwargs in device.calls] == [{}, {"non_blocking": True}]


def test_memory_that_no_loader_pinned_is_left_alone() -> None:
    with on_device() as (device, told):
        torch.ones(2).to(CUDA)
        torch.ones(2).pin_memory().to(CUDA)
        already = torch.ones(2)
        with mock.patch.object(torch.Tensor, "pin_memory", lambda tensor, *device: tensor):
            pinning.pin_memory(already)
        already.to(CUDA)
        with torch.inference_mode():
            pinning.pin_memory(torch.ones(2)).to(CUDA)
    assert all(kwargs == {} for _, kwargs in device.calls)
    assert {place["because"] for place in told.left_alone} == {"no DataLoader pinned its memory"}


def test_a_tensor_that_is_gone_leaves_nothing_behind() -> None:
    with on_device() as (device, _):
        for _ in range(50):
            pinned(2)
            gc.collect(0)
            torch.ones(2).to(CUDA)
    assert all(kwargs == {} for _, kwargs in device.calls)


def test_a_batch_that_the_script_writes_into_waits() -> None:
    with on_device() as (device, told):
        batch = pinned(2)
        batch.mul_(2)
        batch.to(CUDA)
    assert device.last[1] == {}
    assert told.left_alone[0]["because"] == "the script writes into it"


def test_a_script_with_streams_of_its_own_is_left_alone() -> None:
    with on_device() as (device, told):
        torch.cuda.set_stream(None)
        pinned(2).to(CUDA)
    assert device.last[1] == {}
    assert "its own CUDA streams" in told.left_alone[0]["because"]


def test_streams_that_come_after_copies_that_did_not_wait_withdraw_it() -> None:
    with on_device() as (device, told):
        pinned(2).to(CUDA)
        for _ in range(2):
            torch.cuda.set_stream(None)
        pinned(2).to(CUDA)
    assert device.last[1] == {}
    assert [place["because"] for place in told.withdrawn] == ["the script uses its own CUDA streams"]


def test_without_a_device_nothing_is_replaced() -> None:
    with mock.patch.object(torch.version, "hip", None), on_device(version=None) as (device, told):
        pinned(2).to(CUDA)
    assert device.last[1] == {}
    assert not told.events


def test_reasons_are_told_for_the_first_copies_only() -> None:
    with on_device() as (_, told), mock.patch("perfdoctor.tweaks.non_blocking.TOLD_MAX", 1):
        torch.ones(2).to(CUDA)
        torch.ones(2).to(CUDA)
    assert len(told.left_alone) == 1


@pytest.mark.parametrize(
    ("kind", "altered"), [("xpu", True), ("mps", False), (None, False)], ids=["xpu", "mps", "no-device"]
)
def test_copies_to_another_kind_of_device_do_not_wait_where_it_reads_pinned_memory(
    kind: str | None, altered: bool
) -> None:
    seen = Device()
    built = None if kind is None else torch.device(kind, 0)
    accelerators = SimpleNamespace(current_accelerator=lambda check_available=False: built)
    with (
        mock.patch.object(torch.version, "cuda", None),
        mock.patch.object(torch, "accelerator", accelerators, create=True),  # torch 2.6 brings it
        mock.patch.object(torch.Tensor, "to", seen.copy),
        mock.patch.object(torch.Tensor, "pin_memory", lambda tensor, *device: tensor.clone()),
        applied("non_blocking"),
    ):
        pinned(4).to(built or "cuda")
        torch.ones(4).to("cuda")
    assert [kwargs.get("non_blocking", False) for _, kwargs in seen.calls] == [altered, False]
