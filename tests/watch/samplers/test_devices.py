from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from perfdoctor.watch.samplers import amd, devices, gpu


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A machine with libraries that tell of so many devices; None: the library is not there."""

    def made(nvidia: int | None, of_amd: int | None) -> list[str]:
        closed: list[str] = []

        def sampler(name: str, count: int | None) -> Any:
            return lambda *_: SimpleNamespace(
                name=name, devices=["device"] * (count or 0), close=lambda: closed.append(name)
            )

        for module, kind, name, count in (
            (gpu, "GpuSampler", "NVML", nvidia),
            (amd, "AmdSampler", "amdsmi", of_amd),
        ):
            monkeypatch.setattr(module, "load", lambda count=count: None if count is None else "library")
            monkeypatch.setattr(module, kind, sampler(name, count))
        return closed

    return made


@pytest.mark.parametrize(
    ("nvidia", "of_amd", "found"),
    [
        pytest.param(2, None, "NVML", id="nvidia"),
        pytest.param(None, 1, "amdsmi", id="amd"),
        pytest.param(0, 1, "amdsmi", id="a-driver-of-nvidias-without-a-device"),
        pytest.param(1, 1, "NVML", id="both"),
        pytest.param(0, 0, None, id="libraries-only"),
        pytest.param(None, None, None, id="nothing"),
    ],
)
def test_the_first_maker_with_a_device_is_sampled(
    machine: Any, nvidia: int | None, of_amd: int | None, found: str | None
) -> None:
    closed = machine(nvidia, of_amd)
    sampler: Any = devices.opened(Path(), {})
    assert (None if sampler is None else sampler.name) == found
    asked = [name for name, count in (("NVML", nvidia), ("amdsmi", of_amd)) if count == 0]
    assert closed == asked
