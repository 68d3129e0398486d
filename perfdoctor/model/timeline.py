"""How a run went over time: steps by phase, and what samples of the machine saw. Few enough to be drawn."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.flame import Flame, RunDifference, ThreadUse
from perfdoctor.model.measured import Phase
from perfdoctor.model.ranks import WaitsOverTime
from perfdoctor.model.waterfall import Waterfall

Unit = Literal["cores", "bytes", "bytes_per_s", "share"]


@dataclass(frozen=True)
class StepBins:
    """Steps that follow each other, put together in bins of about the same time.

    `edges_s` count from the start of the run, and are one more than there are bins. `windows_s` are the
    times in which steps were watched at a cost, as by a window of the profiler.
    """

    edges_s: tuple[float, ...]
    seconds: Mapping[Phase, tuple[float, ...]]  # mean per step of each bin
    longest_s: tuple[float, ...]  # the longest single step of each bin, or row of `steps_a_row` steps
    steps: int
    rank: int
    windows_s: tuple[tuple[float, float], ...] = ()
    steps_a_row: int = 1  # at most: of rows of several steps, as long runs have, only means are known


@dataclass(frozen=True)
class SampledCurve:
    """One figure over time: the mean of each bin, and its largest sample; None where it was not seen."""

    name: str
    means: tuple[float | None, ...]
    largest: tuple[float | None, ...]


@dataclass(frozen=True)
class SampleChart:
    """Figures of one unit over the same bins of samples. `limit`: the most that there can be."""

    name: str
    unit: Unit
    edges_s: tuple[float, ...]
    curves: tuple[SampledCurve, ...]
    limit: float | None = None
    note: str = ""  # what a reader should know of these figures


@dataclass(frozen=True)
class Timeline:
    """A run from its start to `end_s`. `absent` says by its name why a chart is not there."""

    end_s: float
    steps: StepBins | None
    charts: tuple[SampleChart, ...] = ()
    absent: Mapping[str, str] | None = None
    flames: tuple[Flame, ...] = ()
    threads: tuple[ThreadUse, ...] = ()
    on_core: float | None = None  # share of its time that the training thread ran, by the kernel's clock
    without_core: float | None = None  # and that it was ready, but all cores were taken
    difference: RunDifference | None = None  # where it stands beside another run
    waterfall: Waterfall | None = None
    device_waterfall: Waterfall | None = None  # where a window of the profiler saw a device
    waits: WaitsOverTime | None = None  # of the ranks for each other


@dataclass(frozen=True)
class Excerpt:
    """Lines of a source file around the one that is meant; `first` is the number of the first of them."""

    first: int
    lines: tuple[str, ...]
