"""What a process around a tweak has: a compiler that does not see us, a device, a process group."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any
from unittest import mock

import torch
from torch import distributed, nn

from perfdoctor.probe import compile_question


class OnCuda(nn.Module):
    """Computes on the CPU, and shows parameters on `cuda:0`."""

    def __init__(self, part: Any) -> None:
        super().__init__()
        self.part = part

    def forward(self, x: Any) -> Any:
        return self.part(x)

    def parameters(self, recurse: bool = True) -> Iterator[Any]:
        yield SimpleNamespace(device=torch.device("cuda", 0))


def hidden_from_compiler() -> None:
    """What runs beside the script is hidden from torch.compile, as in every process that is watched."""
    for name in [*sys.modules]:
        if name.startswith(("perfdoctor.probe.", "perfdoctor.tweaks.")):
            compile_question.hide_module(sys.modules[name])


@contextmanager
def capable(capability: tuple[int, int]) -> Iterator[None]:
    """Every CUDA device has this compute capability."""
    with mock.patch.object(torch.cuda, "get_device_capability", return_value=capability):
        yield


_groups: list[Any] = []


@contextmanager
def alone() -> Iterator[None]:
    """This process is a group of one: DistributedDataParallel works.

    The group is kept until the next one: a reducer that drops the last reference holds the interpreter's lock while
    it waits for a thread of gloo's that wants it.
    """
    distributed.init_process_group("gloo", store=distributed.HashStore(), rank=0, world_size=1)
    _groups[:] = [distributed.group.WORLD]
    try:
        yield
    finally:
        distributed.destroy_process_group()
