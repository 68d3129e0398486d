"""Stack samples added up into a tree, few enough frames to be drawn."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

FrameOwner = Literal["user", "torch", "library", "phase", "folded"]


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


@dataclass(frozen=True)
class Flame:
    """The frames of one kind of thread, callers before what they call, left to right."""

    name: str
    samples: int
    sample_s: float | None  # that one stands for
    frames: tuple[FlameFrame, ...]
