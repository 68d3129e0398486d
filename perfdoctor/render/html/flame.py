"""Where the frames of a flame graph lie, and what each of them says."""

from __future__ import annotations

from dataclasses import dataclass

from perfdoctor.model.flame import Flame, FlameFrame
from perfdoctor.render import text

ROW = 18  # pixels
# Told by a mark as well as by colour.
MARKS = {"user": "●", "torch": "◇", "library": "·", "phase": "", "folded": "…"}
OWNERS = {
    "user": "your code",
    "torch": "torch",
    "library": "other libraries",
    "phase": "phase",
    "folded": "folded together",
}


@dataclass(frozen=True)
class Icicle:
    """A flame graph whose outermost frames are on top."""

    name: str
    told: str
    height: int
    frames: tuple[DrawnFrame, ...]


@dataclass(frozen=True)
class DrawnFrame:
    """A frame in percent of the width, its label where it has room for one, and its whole name."""

    left: str
    top: int
    width: str
    style: str
    label: str
    name: str


def icicle(flame: Flame) -> Icicle:
    """The drawing."""
    took = f", {text.seconds(flame.samples * flame.sample_s)}" if flame.sample_s else ""
    told = f"{text.count(flame.samples, 'stack sample')}{took}"
    deepest = max((frame.depth for frame in flame.frames), default=0)
    return Icicle(flame.name, told, ROW * (deepest + 1), tuple(_drawn(frame) for frame in flame.frames))


def _drawn(frame: FlameFrame) -> DrawnFrame:
    mark = f"{MARKS[frame.owner]} {frame.name}".strip()
    place = f" ({frame.place})" if frame.place else ""
    return DrawnFrame(
        f"{100 * frame.left:.2f}",
        ROW * frame.depth,
        f"{100 * frame.width:.2f}",
        frame.owner,
        mark,
        f"{frame.name}{place}: {text.percent(frame.width)}, {OWNERS[frame.owner]}",
    )
