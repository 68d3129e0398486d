"""What the catalogue of tips holds: what a tip says of itself, and those that are owed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum

from perfdoctor.model.change import Effort
from perfdoctor.model.concluded import Advice, Bottleneck

Judge = Callable[..., "Advice | None"]


class Checked(str, Enum):
    """What a tip was held against, beyond facts made up by its author."""

    SCRIPTS = "found in training scripts with its cause planted, and the cure's gain measured"
    PUBLISHED = "its range was held against gains that others published (docs/gpu.md)"
    TRACES = "judged on recorded traces of real devices; its gain was not measured"
    FACTS = "tested on hand-made facts only"


APPLIES = ("cpu", "gpu", "convolutional", "distributed")  # what a tip may say it is for
SAVES = ("time", "memory")


@dataclass(frozen=True)
class TipHeading:
    """What a tip says of itself."""

    title: str
    bottleneck: Bottleneck
    effort: Effort
    applies: tuple[str, ...]
    saves: tuple[str, ...]
    checked: Checked = Checked.FACTS
    general: bool = False  # asked after all others, which it gives way to, and ranked behind them
    rivals: tuple[str, ...] = ()  # ids of tips that serve the same end, or would undo this one


@dataclass(frozen=True)
class Planned:
    """A tip that is owed and not there yet."""

    title: str
    bottleneck: Bottleneck
    because: str  # what is missing


@dataclass(frozen=True)
class Tip:
    """One entry of the catalogue. `needs` maps the judge's parameters to the fact groups they take."""

    id: str
    heading: TipHeading
    judge: Judge
    needs: dict[str, type]
    doc: str

    @property
    def title(self) -> str:
        """The change in one line, as an imperative."""
        return self.heading.title

    @property
    def bottleneck(self) -> Bottleneck:
        """The class of the time that the change takes away."""
        return self.heading.bottleneck
