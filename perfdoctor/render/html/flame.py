"""Where the frames of a flame graph lie, what each of them says, and what each thread was at."""

from __future__ import annotations

from collections.abc import Sequence

from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.flame import DifferenceFrame, Flame, FlameFrame, ThreadUse
from perfdoctor.render import text
from perfdoctor.render.html import charts
from perfdoctor.render.html.charts import BoxPart

ROW = 18  # pixels
# Told by a mark as well as by colour.
MARKS = {"user": "●", "torch": "◇", "library": "·", "phase": "", "thread": "", "folded": "…"}
OWNERS = {
    "user": "your code",
    "torch": "torch",
    "library": "other libraries",
    "phase": "phase",
    "thread": "thread",
    "folded": "folded together",
}


@dataclass(frozen=True)
class Icicle:
    """A flame graph whose outermost frames are on top."""

    name: str
    told: str
    height: int
    frames: tuple[DrawnFrame, ...]
    counts: str = ""  # of all its samples, by state


@dataclass(frozen=True)
class DrawnFrame:
    """A frame in percent of the width, its label where it has room for one, and its whole name."""

    left: str
    top: int
    width: str
    style: str
    label: str
    name: str
    counts: str = ""  # samples, those that wait, those that idle; without zeros at the end
    rests: bool = False  # most of its samples wait, or idle


def icicle(flame: Flame) -> Icicle:
    """The drawing."""
    took = f", {text.seconds(flame.samples * flame.sample_s)}" if flame.sample_s else ""
    told = f"{text.count(flame.samples, 'stack sample')}{took}"
    roots = [frame for frame in flame.frames if frame.depth == 0]
    states = (sum(frame.waiting for frame in roots), sum(frame.idle for frame in roots))
    frames = tuple(_drawn(frame) for frame in flame.frames)
    return Icicle(flame.name, told, height(flame.frames), frames, _counts(flame.samples, *states))


def height(frames: Sequence[FlameFrame | DifferenceFrame]) -> int:
    """The pixels that all rows of frames take."""
    return ROW * (max((frame.depth for frame in frames), default=0) + 1)


def named(frame: FlameFrame | DifferenceFrame) -> str:
    """A frame's name and place."""
    return f"{frame.name} ({frame.place})" if frame.place else frame.name


def _drawn(frame: FlameFrame) -> DrawnFrame:
    mark = f"{MARKS[frame.owner]} {frame.name}".strip()
    states = (("waiting", frame.waiting), ("idle", frame.idle))
    rests = [f"{text.percent(count / frame.samples)} of it {name}" for name, count in states if count]
    told = [text.percent(frame.width), OWNERS[frame.owner], *rests]
    return DrawnFrame(
        f"{100 * frame.left:.2f}",
        ROW * frame.depth,
        f"{100 * frame.width:.2f}",
        frame.owner,
        mark,
        f"{named(frame)}: {', '.join(told)}",
        _counts(frame.samples, frame.waiting, frame.idle),
        2 * (frame.waiting + frame.idle) > frame.samples,
    )


def _counts(*samples: int) -> str:
    """As short as it can be: there are hundreds of them."""
    kept = list(samples)
    while len(kept) > 1 and not kept[-1]:
        kept.pop()
    return " ".join(map(str, kept))


# ---------------------------------------------------------------- threads


@dataclass(frozen=True)
class ThreadRow:
    """A thread, or several of one name: what its samples were at."""

    name: str
    samples: str
    shares: tuple[str, ...]  # running, waiting, idle
    bar: tuple[BoxPart, ...]


def thread_rows(threads: Sequence[ThreadUse]) -> tuple[ThreadRow, ...]:
    """A row for each thread."""
    return tuple(_row(thread) for thread in threads if thread.samples)


def _row(thread: ThreadUse) -> ThreadRow:
    running = thread.samples - thread.waiting - thread.idle
    states = (("running", running), ("waiting", thread.waiting), ("idle", thread.idle))
    return ThreadRow(
        thread.name,
        f"{thread.samples:,}",
        tuple(text.percent(count / thread.samples) for _, count in states),
        charts.bar([(f"state-{name}", name, count) for name, count in states]),
    )


def kernel_clock(on_core: float | None, without_core: float | None) -> str:
    """What the kernel says of the training thread, which samples cannot tell: whether it had a core."""
    if on_core is None or without_core is None:
        return ""
    return (
        f"By the kernel's clock, the training thread was on a core for {text.percent(on_core)} of the time in"
        f" which training stepped, and ready without a free one for {text.percent(without_core)}."
    )
