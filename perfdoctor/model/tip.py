"""What the catalogue of tips holds: what a tip says of itself, and those that are owed."""

from __future__ import annotations

from collections.abc import Callable

from perfdoctor.model.change import Effort
from perfdoctor.model.checked import Checked
from perfdoctor.model.concluded import Advice, Bottleneck
from perfdoctor.model.dataclass import dataclass

Judge = Callable[..., "Advice | None"]


APPLIES = ("cpu", "gpu", "convolutional", "distributed")  # what a tip may say it is for
SAVES = ("time", "memory", "correctness")


@dataclass(frozen=True)
class TipHeading:
    """What a tip says of itself."""

    title: str
    bottleneck: Bottleneck
    effort: Effort
    applies: tuple[str, ...] = ("cpu", "gpu")
    saves: tuple[str, ...] = ("time",)
    checked: Checked = Checked.FACTS
    checked_on_device: Checked | None = None  # where that is something else than scripts on CPUs
    general: bool = False  # asked after all others, which it gives way to, and ranked behind them
    rivals: tuple[str, ...] = ()  # ids of tips that serve the same end, or would undo this one
    kernels_only: bool = False  # on a device it makes kernels shorter, and the host as late as before
    # ids of tips that quicken, or spread out, work which this one spares: it comes before them
    before: tuple[str, ...] = ()

    def checked_for(self, device: str) -> Checked:
        """What it was held against for runs on "cpu" or an accelerator: scripts were watched on CPUs."""
        if device == "cpu" or self.checked is not Checked.SCRIPTS:
            return self.checked
        return self.checked_on_device or Checked.CPU_SCRIPTS


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
