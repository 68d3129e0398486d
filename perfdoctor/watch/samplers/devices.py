"""The sampler for this machine's accelerators, whoever made them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

from perfdoctor.watch.samplers import amd, gpu
from perfdoctor.watch.samplers.gpu import SampledDevice


class DeviceSampler(Protocol):
    """Writes down what devices do, a line each at every tick."""

    devices: list[SampledDevice]

    def lines(self) -> list[dict[str, Any]]:
        """What each device tells now."""

    def tick(self) -> None:
        """Write one line for each device."""

    def close(self) -> None:
        """Let go of the maker's library."""


def opened(run: Path, environment: Mapping[str, str]) -> DeviceSampler | None:
    """The sampler of the first maker with a device for the run, or None where there is none."""
    for library, sampler in ((gpu.load, gpu.GpuSampler), (amd.load, amd.AmdSampler)):
        found = library()
        if found is None:
            continue
        made: DeviceSampler = sampler(run, found, environment)
        if made.devices:
            return made
        made.close()
    return None
