"""Explains the end of a script that found no memory left: OutOfMemory."""

from __future__ import annotations

from collections.abc import Iterator

from perfdoctor.facts.decode import location
from perfdoctor.facts.registry import fact
from perfdoctor.facts.steps.boundaries import Steps
from perfdoctor.facts.user_source.parse import Sources
from perfdoctor.model.measured import LoaderFacts
from perfdoctor.model.missing import Missing
from perfdoctor.model.note import Note
from perfdoctor.model.out_of_memory import HeldMemory, OutOfMemory
from perfdoctor.runs.types import RankRecords
from perfdoctor.wire.events.memory import OutOfMemoryEvent

NOTICEABLE = 0.1  # share of all there is
MOST = 0.5  # of what tensors held: where to begin
BASE = "the process, before it trained"
PARAMETERS, GRADIENTS, STATE = "parameters", "gradients", "optimizer state"
OTHERS_HELD = "activations and all other tensors"
RESERVED, OTHER_PROCESSES = "reserved by torch and not in use", "other processes"


@fact
def out_of_memory(
    rank: RankRecords, steps: Steps | Missing, loader: LoaderFacts | Missing | None, sources: Sources
) -> OutOfMemory | None:
    """What held the memory, or None where the script did not end for want of it."""
    events = rank.of(OutOfMemoryEvent)
    if not events:
        return None
    event = events[-1]
    held = tuple(_held(event))
    made = 0 if isinstance(steps, Missing) else round(float(steps.weight.sum()))
    batch = loader.batch_size if isinstance(loader, LoaderFacts) else None
    return OutOfMemory(
        device=event.device,
        step=made + 1,
        asked_bytes=event.asked_bytes,
        total_bytes=event.total_bytes,
        held=held,
        at=sources.shown(location(event.at)),
        remedies=tuple(_remedies(event, {each.name: each.held_bytes for each in held}, batch)),
    )


def _fixed(event: OutOfMemoryEvent) -> int:
    """What is held whatever the batch is."""
    return event.parameters_bytes + event.gradients_bytes + event.optimizer_bytes


def _held(event: OutOfMemoryEvent) -> Iterator[HeldMemory]:
    """Who held it, as far as that is known; what is nothing is left out."""
    on_host = event.reserved_bytes is None
    rest = max(0, (event.held_bytes or 0) - _fixed(event) - (event.base_bytes or 0))
    unused = max(0, (event.reserved_bytes or 0) - (event.held_bytes or 0))
    known = event.total_bytes is not None and event.free_bytes is not None and not on_host
    others = (event.total_bytes or 0) - (event.free_bytes or 0) - (event.reserved_bytes or 0) if known else 0
    for name, size in (
        (BASE, event.base_bytes or 0),
        (PARAMETERS, event.parameters_bytes),
        (GRADIENTS, event.gradients_bytes),
        (STATE, event.optimizer_bytes),
        (OTHERS_HELD, rest),
        (RESERVED, unused),
        (OTHER_PROCESSES, max(0, others)),
    ):
        if size > 0:
            yield HeldMemory(name, size)


def _remedies(event: OutOfMemoryEvent, held: dict[str, int], batch: int | None) -> Iterator[Note]:
    """What would fit, or what to look at, most telling first."""
    total, asked = event.total_bytes or 0, event.asked_bytes or 0
    if event.device is None:
        yield Note("memory-of-a-worker")
        return
    if total and asked > total:
        yield Note("memory-more-than-all", {"asked": asked, "total": total})
        return
    others, unused = held.get(OTHER_PROCESSES, 0), held.get(RESERVED, 0)
    if total and others >= NOTICEABLE * total:
        yield Note("memory-of-others", {"bytes": others, "device": event.device})
    if total and unused >= max(asked, NOTICEABLE * total):
        yield Note("memory-fragmented", {"bytes": unused})
    rest = held.get(OTHERS_HELD, 0)
    left = total - others - _fixed(event) - (event.base_bytes or 0)
    fits = int(batch * left / (rest + asked)) if batch and 0 < left < rest + asked else None
    if fits and batch:
        yield Note("memory-fits-batch", {"batch": batch, "fits": fits, "times": -(-batch // fits)})
    if rest >= MOST * (rest + _fixed(event)) > 0:
        yield Note("memory-of-activations", {"share": rest / (rest + _fixed(event))})
    elif _fixed(event):
        yield Note("memory-of-the-model", {"bytes": _fixed(event)})
    if not event.stepped and event.parameters_bytes:
        yield Note("memory-to-come", {"bytes": 2 * event.parameters_bytes})
