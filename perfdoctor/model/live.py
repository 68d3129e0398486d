"""A run that goes on, as it is now."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import field
from enum import Enum

from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.measured import MemoryFacts, Phase, RunFacts


class LiveState(str, Enum):
    """Where a run is."""

    STARTING = "starting"  # no step yet
    TRAINING = "training"
    UNWATCHED = "unwatched"  # the watch is over, and the command goes on
    LOST = "lost"  # nothing is written any more, and nobody wrote how it ended
    ENDED = "ended"

    @property
    def is_over(self) -> bool:
        """Whether nothing more will come."""
        return self in (LiveState.LOST, LiveState.ENDED)


@dataclass(frozen=True)
class LiveRank:
    """One rank: all its steps, and the mean of its last ones. Without those, the figures are 0."""

    rank: int
    steps: int
    step_s: float = 0.0
    seconds: Mapping[Phase, float] = field(default_factory=dict)  # per step
    samples_per_s: float | None = None
    recent: int = 0  # steps that the means are of
    silent_s: float | None = None  # since its last step, where that is long; None: it is not, or not known
    node: str = ""


@dataclass(frozen=True)
class LiveDevice:
    """One accelerator, as its last sample has it."""

    index: int
    busy: float | None
    used_bytes: int | None
    total_bytes: int | None
    power_w: float | None = None


@dataclass(frozen=True)
class LiveHost:
    """The host of the watch, by its last two samples: busy cores by role of the run's processes."""

    cores: Mapping[str, float]
    usable_cores: float | None
    others_cores: float | None  # that programs keep busy which are not of the run
    memory: MemoryFacts | None


@dataclass(frozen=True)
class LiveNow:
    """All of it."""

    run: RunFacts  # its duration is that so far
    state: LiveState
    ranks: tuple[LiveRank, ...] = ()
    host: LiveHost | None = None
    devices: tuple[LiveDevice, ...] = ()
    steps_per_s: tuple[float, ...] = ()  # over the whole run, of the lowest rank
    silent_s: float = 0.0

    @property
    def leading(self) -> LiveRank | None:
        """The lowest rank that has made a step."""
        return next((rank for rank in self.ranks if rank.steps), None)
