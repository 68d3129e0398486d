"""What happens while a batch is prepared: its cost, stage by stage, and the lines that it passes through."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from enum import Enum

from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.measured import LineCost, Location, Phase, StepFacts

WAITED_FOR = 0.10  # share of the step lost to batches: below it no advice is about how they are prepared
NAMED = 0.01  # of the step: a smaller loss is not mentioned


class Stage(str, Enum):
    """What a worker (or the training process, without workers) is doing while it prepares a batch."""

    READING = "reading"  # files, archives, databases on this machine
    FETCHING = "fetching"  # over a network
    DECODING = "decoding"  # images, sound, video, compressed data
    TRANSFORMING = "transforming"  # the user's Python, and array libraries on its behalf
    WAITING = "waiting"  # for a lock, a queue, another thread or process
    COLLATING = "collating"


@dataclass(frozen=True)
class StageCost:
    """One stage, by one library. `share` and the lines' shares are of what preparing a batch costs.

    `kind` tells stages of one name apart: "image", "audio", "table", "archive", "lock", "copy", ...,
    empty where nothing more is known. `library` is None where no library was seen.
    """

    stage: Stage
    kind: str
    library: str | None
    share: float
    samples: int
    lines: tuple[LineCost, ...] = ()  # costliest first


@dataclass(frozen=True)
class CalledBack:
    """A function of the user's that a library calls, again and again, for one of the user's lines."""

    file: str
    function: str
    by: Location  # the line that calls the library
    share: float  # of the batch: the library's own time on the way to the function, which is that line's


@dataclass(frozen=True)
class BatchFacts:
    """What preparing a batch costs whoever does it, by stage; the shares of all costs add up to 1."""

    batch_s: float  # wall time
    cpu_s: float
    in_workers: bool
    samples: int  # stack samples of batches being prepared
    costs: tuple[StageCost, ...]
    connecting: float = 0.0  # of the time spent fetching, that goes into opening connections
    locked: tuple[LineCost, ...] = ()  # lines that run while a lock is held; shares of the batch
    transfer_s: float = 0.0  # beyond `batch_s`: packing it for a queue, and taking it out again
    worker_start_s: float | None = None
    called_back: tuple[CalledBack, ...] = ()  # where the user's own code is transforming
    # Where the sparse matrix is made by columns that rows are taken from, or by rows.
    laid_out_at: Location | None = None

    def of(self, stage: Stage, *kinds: str) -> tuple[StageCost, ...]:
        """The costs of a stage, of these kinds only where some are given."""
        return tuple(cost for cost in self.costs if cost.stage is stage and (not kinds or cost.kind in kinds))

    def share(self, stage: Stage, *kinds: str) -> float:
        """The share of the batch that a stage takes."""
        return min(1.0, sum(cost.share for cost in self.of(stage, *kinds)))

    def library(self, line: LineCost) -> str | None:
        """The library in which most of a line's cost is; None where no library was seen."""
        shares = {
            cost.library: part.share
            for cost in sorted(self.costs, key=lambda cost: cost.share)
            for part in cost.lines
            if part.at == line.at
        }
        return max(shares, key=lambda library: shares[library], default=None)

    def lines(self, stage: Stage, *kinds: str) -> list[LineCost]:
        """The lines that a stage passes through, each once, costliest first."""
        together: dict[tuple[str, int], LineCost] = {}
        for line in (line for cost in self.of(stage, *kinds) for line in cost.lines):
            place = line.at.file, line.at.line
            known = together.get(place)
            together[place] = (
                replace(known, share=known.share + line.share, samples=known.samples + line.samples)
                if known
                else line
            )
        return sorted(together.values(), key=lambda line: -line.share)


def waits(step: StepFacts) -> str:
    """A sentence on the time that a step loses to batches."""
    waited, contention = step.share(Phase.DATA_WAIT), step.data_stall - step.share(Phase.DATA_WAIT)
    slowed = "" if contention < NAMED else f", {contention:.0%} is training slowed down by its own workers"
    return f"{waited:.0%} of each step waits for the next batch{slowed}"


def waits_beside(step: StepFacts, left_out_s: Mapping[str, float]) -> str:
    """The same without waits that a change leaves as they are, which are named where that is another number.

    `left_out_s`: seconds of a step by what is waited for.
    """
    whole, part = (
        f"{(step.seconds.get(Phase.DATA_WAIT, 0.0) - without_s) / step.mean_s:.0%}"
        for without_s in (0.0, sum(left_out_s.values()))
    )
    named = " and ".join(name for name, waited_s in left_out_s.items() if waited_s > 0)
    beside = f", not counting {named}" if part != whole and named else ""
    return f"{part} of each step waits for the next batch{beside}"
