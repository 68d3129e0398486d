"""Tells how long training waits for a thread that hands on the batches of a loader's workers: HandedOnFacts.

A DataLoader of the script's own whose `__iter__` gives a queue that a thread fills delivers nothing to the
training thread itself: no wait for a batch is seen there, but one for a queue.
"""

from __future__ import annotations

from perfdoctor.facts.data.wait_parts import LOADER
from perfdoctor.facts.host.stacks import threads
from perfdoctor.facts.registry import fact
from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.measured import LoaderFacts, Location, Phase, StackFacts
from perfdoctor.model.missing import Missing
from perfdoctor.runs.types import RankRecords

TAKES = "__next__"  # of a loader's iterator


@dataclass(frozen=True)
class HandedOnFacts:
    """Waits for the queue of a thread that takes the batches of a loader with workers."""

    share: float = 0.0  # of the step
    at: Location | None = None  # where the training loop takes them


@fact
def handed_on_facts(
    rank: RankRecords, stacks: StackFacts | Missing, loader: LoaderFacts | Missing | None
) -> HandedOnFacts:
    """The waits that stack samples saw; none where the training thread iterates the loader itself."""
    if isinstance(stacks, Missing) or not isinstance(loader, LoaderFacts) or not loader.num_workers:
        return HandedOnFacts()
    lines = [line for line in stacks.phases.get(Phase.OTHER, ()) if line.kind == "queue"]
    if not lines or not _taken_in_thread(rank):
        return HandedOnFacts()
    return HandedOnFacts(min(1.0, sum(line.share for line in lines)), lines[0].at)


def _taken_in_thread(rank: RankRecords) -> bool:
    """Whether a thread beside the training thread was seen to wait for a loader's batches."""
    return any(
        label.startswith("thread ")
        and any(LOADER.search(frame.file) and frame.name == TAKES for frame in frames)
        for label, frames, _ in threads(rank)
    )
