"""Measures the one thread through which all workers' batches pass where memory is pinned: PinningFacts."""

from __future__ import annotations

from perfdoctor.facts.data.batch_stages import hands_over, pins
from perfdoctor.facts.host.stacks import FEW, threads
from perfdoctor.facts.registry import fact
from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.measured import LoaderFacts
from perfdoctor.runs.types import RankRecords


@dataclass(frozen=True)
class PinningFacts:
    """How busy the thread is that takes batches out of the workers' queue and pins them."""

    busy: float  # share of the training thread's time in which it is at work


@fact
def pinning_facts(rank: RankRecords, loader: LoaderFacts) -> PinningFacts | None:
    """What stack samples saw of that thread, or None where there is none, or where too few tell."""
    if not loader.num_workers or not loader.pin_memory:
        return None
    main = busy = 0
    for thread, frames, count in threads(rank):
        if thread == "main":
            main += count
        elif pins(frames) and hands_over(frames):
            busy += count
    return PinningFacts(min(1.0, busy / main)) if main >= FEW else None
