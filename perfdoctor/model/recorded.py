"""What a run recorded, as it is handed to other programs: steps, samples of the host, stacks."""

from __future__ import annotations

import re
from collections.abc import Mapping

from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.measured import Phase

NUMBER = re.compile(r"\d+(?:[_-]\d+)*")  # that tells processes, and threads of one pool, apart


@dataclass(frozen=True)
class RecordedStep:
    """One step, or the mean of several that the record holds as one row."""

    number: int  # steps before it
    begin_s: float  # since the start of the run
    seconds: float  # of a step
    phases: Mapping[Phase, float]  # seconds, of a step; they add up to `seconds`
    samples: float  # of a step; 0 where the batch size is not known
    loss: float | None
    steps: float = 1.0  # that the row stands for


@dataclass(frozen=True)
class HostSample:
    """One process of the run at one moment. Totals count from the start of the process."""

    at_s: float
    pid: int
    role: str
    cpu_s: float | None
    threads: int | None
    rss_bytes: int | None
    read_bytes: int | None
    written_bytes: int | None


@dataclass(frozen=True)
class RecordedStack:
    """A stack of one thread, from the outermost frame in, and how often it was seen."""

    thread: str
    phase: str  # a phase of the step; "loader" in its workers
    frames: tuple[str, ...]  # each `function (file:line)`
    samples: int

    @property
    def thread_kind(self) -> str:
        """The thread without what is another in each run: `worker *`, `thread ThreadPoolExecutor-*`."""
        return NUMBER.sub("*", self.thread)


@dataclass(frozen=True)
class Recorded:
    """What one rank recorded, and its host."""

    name: str
    rank: int
    started_epoch_s: float
    steps: tuple[RecordedStep, ...]
    host: tuple[HostSample, ...]
    stacks: tuple[RecordedStack, ...]
    sample_s: float | None  # that a stack sample stands for
