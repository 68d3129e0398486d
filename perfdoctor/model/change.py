"""What a tip changes about a step, as quantities that the step model puts together again."""

from __future__ import annotations

from enum import Enum

from perfdoctor.model.dataclass import dataclass


class Effort(str, Enum):
    """What a change costs the user who makes it."""

    FLAG = "flag"  # an argument or a line; one command tries it
    LINES = "lines"  # a few lines at a known place
    REWRITE = "rewrite"  # another design: a day, or a new dependency


@dataclass(frozen=True)
class Estimate:
    """A share (0..1) that is not known exactly: low <= likely <= high. Below 0, that much is added."""

    low: float = 0.0
    likely: float = 0.0
    high: float = 0.0

    def at(self, case: int) -> float:
        """The share in the best case (0: high), the likely one (1) or the worst (2: low)."""
        return (self.high, self.likely, self.low)[case]


NOTHING = Estimate()


@dataclass(frozen=True)
class Change:
    """What goes, moves or is set anew. All shares are of what was measured in the run as it was.

    `step`: share of the mean step's wall time that goes from the training thread (or from the device).
    `pauses`: share of it that goes from validation and checkpoints, beside which workers fill their queue.
    `batch`: share of the cost of preparing a batch that goes. `starts`: share of the mean step's wall time
    that goes from the waits at epoch starts. `moved`: share of the mean step's wall time that moves from the
    training thread into workers. `others`: share of the mean step's wall time that goes from the waits for
    other loaders than the training one. `handed`: share that goes of what handing over the workers' batches
    takes: of the one thread that pins them, or of the training thread, which waits for them on their way.
    `workers`, `prefetch`: the setting of the training loader from then on.
    `is_published`: the range is that of published gains, which needs no widening.
    `is_once`: what goes is a cost of the run's beginning, as compiling is: once settled, no step is shorter.
    """

    step: Estimate = NOTHING
    batch: Estimate = NOTHING
    starts: Estimate = NOTHING
    moved: Estimate = NOTHING
    others: Estimate = NOTHING
    handed: Estimate = NOTHING
    pauses: Estimate = NOTHING
    workers: int | None = None
    prefetch: int | None = None
    is_published: bool = False
    is_once: bool = False

    @property
    def shares(self) -> tuple[Estimate, ...]:
        """What goes or moves, of whatever it is a share."""
        return self.step, self.batch, self.starts, self.moved, self.others, self.handed, self.pauses

    @property
    def is_setting(self) -> bool:
        """Whether no measured time goes or moves: the step model plays the setting through."""
        return all(share == NOTHING for share in self.shares)


def removes(low: float, likely: float, high: float) -> Change:
    """A change that takes these shares of the mean step's wall time out of the step."""
    return Change(step=Estimate(low, likely, high))
