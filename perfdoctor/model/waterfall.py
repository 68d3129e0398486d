"""Some usual steps as they happened: who did what when, on one axis."""

from __future__ import annotations

from perfdoctor.model.dataclass import dataclass


@dataclass(frozen=True)
class LaneStretch:
    """What was done from one moment to another, in seconds from the begin of the first step shown.

    `kind` is a phase of the training process, "read" or "collate" of a batch, or "exchange". Of a window of
    the profiler it is "loading", "operators" or "blocked" of the host, "compute", "communication" or
    "copying" of a device.
    """

    kind: str
    begin_s: float
    end_s: float
    name: str = ""  # where it says more than its kind


@dataclass(frozen=True)
class Lane:
    """The stretches of one process, or of what it does beside its steps."""

    name: str
    stretches: tuple[LaneStretch, ...]
    worked_s: float | None = None  # where stretches stand for more than that, since gaps in them are not seen

    @property
    def busy_s(self) -> float:
        """How long something was done."""
        if self.worked_s is not None:
            return self.worked_s
        return sum(stretch.end_s - stretch.begin_s for stretch in self.stretches)


@dataclass(frozen=True)
class Waterfall:
    """Steps that follow each other, of usual length. `borders_s`: where each of them ends.

    Of `workers` that prepared batches in this time, the first few have a lane.
    """

    first: int  # steps before it
    borders_s: tuple[float, ...]
    lanes: tuple[Lane, ...]
    rank: int
    workers: int = 0
    window: str = ""  # of the profiler, from which its one step is taken: what it calls that step

    @property
    def length_s(self) -> float:
        """All of the steps together."""
        return self.borders_s[-1]
