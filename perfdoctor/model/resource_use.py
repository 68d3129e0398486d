"""What a run used of its machine between the first step and the last, and what would have been enough."""

from __future__ import annotations

from perfdoctor.model.dataclass import dataclass


@dataclass(frozen=True)
class UsedResource:
    """One resource: cores, or an amount of bytes. None: not known."""

    name: str
    in_bytes: bool
    mean: float | None
    peak: float  # the most that a sample saw
    available: float
    enough: float  # the peak, with what it takes for a next run like it

    @property
    def is_idle(self) -> bool:
        """Whether half of it would have been enough."""
        return self.enough * 2 <= self.available


@dataclass(frozen=True)
class ResourceUse:
    """All that was sampled."""

    resources: tuple[UsedResource, ...]
    device_busy: float | None = None  # share of the time in which devices computed
    devices: int = 0
    power_w: float | None = None  # of all devices together, in the mean
    epoch_s: float | None = None  # of the training loader's dataset, at the mean step
