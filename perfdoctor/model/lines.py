"""Where the seconds of a step go, line by line of the user's code."""

from __future__ import annotations

from collections.abc import Mapping
from enum import Enum

from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.measured import Location, Phase


class WaitPart(str, Enum):
    """What a wait for a batch is made of."""

    SAMPLER = "sampler"  # choosing the samples
    DATASET = "dataset"  # reading and transforming them
    COLLATE = "collate"
    TRANSFER = "transfer"  # from a worker to the main process, pinning memory included
    WORKER_START = "worker start-up"  # or their end
    LOADER = "loader"  # the loader's own work, where no worker is seen to have a part in it
    WORKERS = "workers"  # what the workers did meanwhile was not sampled


@dataclass(frozen=True)
class LineSeconds:
    """A line of the user's code in one phase of the step.

    `self_s` holds library code that the line calls. The lines of a phase, and what was not seen of it, add up
    to the phase by `self_s`.
    """

    at: Location
    phase: Phase
    self_s: float  # seconds a step, with library code it calls
    total_s: float  # and with the user's own functions that it calls
    share: float  # of the step, by self_s
    samples: int  # stack samples behind self_s
    wait: WaitPart | None = None  # of a wait for a batch, the part that it belongs to
    in_worker: bool = False  # the line runs in a loader worker, and training waits for it
    runs: tuple[str, ...] = ()  # what it calls: copies to a device, operators, library functions


@dataclass(frozen=True)
class StepLines:
    """The step divided among the user's lines."""

    samples: int
    lines: tuple[LineSeconds, ...]  # costliest first, by self_s
    unseen_s: Mapping[Phase, float]  # seconds a step of each phase that no stack sample reached

    @property
    def unseen(self) -> float:
        """Seconds a step that no stack sample reached."""
        return sum(self.unseen_s.values())
