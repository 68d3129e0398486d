"""Measures how much of the waits for batches is their way from the workers: HandOverFacts."""

from __future__ import annotations

from perfdoctor.facts.data import wait_parts
from perfdoctor.facts.data.batch_stages import hands_over, pins, polls, unpacks
from perfdoctor.facts.host.stacks import FEW, threads
from perfdoctor.facts.registry import fact
from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.lines import WaitPart
from perfdoctor.model.measured import LoaderFacts, Phase
from perfdoctor.runs.types import RankRecords


@dataclass(frozen=True)
class HandOverFacts:
    """What of the waits for batches goes into packing them in workers and taking them out of the queue."""

    of_waits: float  # share of the time that the training thread waits for batches
    samples: int  # of the training thread behind it
    pinned: bool  # by a thread that takes them out of the workers' queue, not by the training thread


@fact
def hand_over_facts(rank: RankRecords, loader: LoaderFacts) -> HandOverFacts | None:
    """What stack samples saw, or None where there are no workers, or where too few samples tell.

    Where a thread pins batches, only the least time counts in which it is at work and is waited for: how long
    it waits for the workers itself is none of it.
    """
    if not loader.num_workers:
        return None
    main = waited = taking = late = pinning = 0
    is_pinned = False
    workers = dict.fromkeys(WaitPart, 0)  # at work
    for thread, frames, count in threads(rank):
        if thread == "main":
            main += count
            if any(frame.phase is Phase.DATA_WAIT for frame in frames):
                waited += count
                taking += count * unpacks(frames)
                late += count * polls(frames)
        elif thread.startswith("worker "):
            part = wait_parts.of_worker(frames)
            if part is not None:
                workers[part] += count
        elif pins(frames):
            is_pinned = True
            pinning += count * hands_over(frames)
    if waited < FEW:
        return None
    if is_pinned:
        surely = min(waited, max(0, pinning + waited - main))
        return HandOverFacts(surely / waited, surely, pinned=True)
    busy = sum(workers.values())
    handed = taking + (late * workers[WaitPart.TRANSFER] / busy if busy else 0.0)
    return HandOverFacts(handed / waited, round(handed), pinned=False)
