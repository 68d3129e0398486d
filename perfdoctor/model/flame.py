"""Stack samples added up into trees, few enough frames to be drawn: of one run, and of two."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.measured import Phase

FrameOwner = Literal["user", "torch", "library", "phase", "thread", "folded"]
ThreadState = Literal["running", "waiting", "idle"]


@dataclass(frozen=True)
class FlameFrame:
    """One frame: `left` and `width` are shares of all samples, `depth` counts from the outermost one."""

    name: str
    place: str  # file, and the line in the user's own code
    owner: FrameOwner
    depth: int
    left: float
    width: float
    samples: int
    waiting: int = 0  # of the samples: for something that it asked for
    idle: int = 0  # of the samples: for work


@dataclass(frozen=True)
class Flame:
    """The frames of one kind of thread, callers before what they call, left to right."""

    name: str
    samples: int
    sample_s: float | None  # that one stands for
    frames: tuple[FlameFrame, ...]


@dataclass(frozen=True)
class ThreadUse:
    """What the samples of a thread were at, or of several of the same name."""

    name: str
    samples: int
    waiting: int
    idle: int


@dataclass(frozen=True)
class DifferenceFrame:
    """One frame of two runs. Amounts are seconds of a step, or shares of all samples.

    `left` and `width` are shares of what both runs have together, so that a frame of only one of them shows.
    """

    name: str
    place: str
    owner: FrameOwner
    depth: int
    left: float
    width: float
    before: float
    after: float
    is_sure: bool  # the two are further apart than so few samples can be by chance


@dataclass(frozen=True)
class FlameDifference:
    """One kind of thread in two runs."""

    name: str
    before: float
    after: float
    samples: tuple[int, int]
    in_seconds: bool  # of a step; else amounts are shares of the samples
    frames: tuple[DifferenceFrame, ...]


@dataclass(frozen=True)
class RunDifference:
    """A run beside another one, which came before it: mean steps by phase, and where stacks differ."""

    name: str  # of the other run
    before: Mapping[Phase, float]  # seconds of a step; empty where one of the runs made none
    after: Mapping[Phase, float]
    flames: tuple[FlameDifference, ...]
