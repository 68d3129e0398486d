"""Measures the loader that validation waits for: ValidationLoaderFacts, from its rows and events."""

from __future__ import annotations

from collections.abc import Sequence

from perfdoctor.facts.data.loader import wait_s
from perfdoctor.facts.data.training_loader import (
    epochs_seen,
    made_loaders,
    rows_of,
    steps_inside,
    trained_on,
    user_made,
)
from perfdoctor.facts.decode import location
from perfdoctor.facts.registry import fact
from perfdoctor.facts.steps.span import MeasuredSpan
from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.measured import Location
from perfdoctor.runs.types import RankRecords
from perfdoctor.wire.events.loaders import EpochEvent, LoaderEvent

Made = tuple[Location | None, int]  # where loaders are made, and with how many workers


@dataclass(frozen=True)
class ValidationLoaderFacts:
    """Of the loaders inside whose epochs no step ends, the one that the loop waits for longest.

    Loaders that one line makes again and again count as one.
    """

    num_workers: int
    at: Location | None  # the `DataLoader(...)` call
    iterable: bool
    built: int  # how many loaders the line made
    epochs: int  # iterators started between the first step and the last
    batches: int  # prepared while watched
    batches_per_step: float
    batch_s: float  # wall seconds that one batch costs who prepares it
    batch_cpu_s: float
    wait_s: float  # seconds per step that the loop waits for it


@fact
def validation_loader_facts(rank: RankRecords, span: MeasuredSpan) -> ValidationLoaderFacts | None:
    """The facts of that loader, or None where the loop waits for no other loader than the training one."""
    training = trained_on(rank, span)
    inside = steps_inside(epochs_seen(rank, span), span)
    groups: dict[Made, list[LoaderEvent]] = {}
    own = user_made(rank)
    for event in made_loaders(rank):
        if event.id not in training and not inside.get(event.id):
            made = location(own[event.id].at), event.num_workers
            groups.setdefault(made, []).append(event)
    found = [_facts(rank, span, made, events) for made, events in groups.items()]
    return max((each for each in found if each is not None), key=lambda each: each.wait_s, default=None)


def _facts(
    rank: RankRecords, span: MeasuredSpan, made: Made, events: Sequence[LoaderEvent]
) -> ValidationLoaderFacts | None:
    at, num_workers = made
    identities = {event.id for event in events}
    waited_s = wait_s(rank, identities, span)
    rows = rows_of(rank.loader, identities, span)
    if rows is None or not len(rows) or waited_s <= 0:
        return None
    batches = int(rows["batches"].sum())
    epochs = [entry for entry in rank.of(EpochEvent) if entry.loader in identities and span.holds(entry.t_ns)]

    def mean_s(*columns: str) -> float:
        return float(sum(rows[column].sum() for column in columns)) / 1e9 / batches

    return ValidationLoaderFacts(
        num_workers=num_workers,
        at=at,
        iterable=events[0].iterable,
        built=len(events),
        epochs=len(epochs),
        batches=batches,
        batches_per_step=batches / span.steps,
        batch_s=mean_s("read_ns", "collate_ns"),
        batch_cpu_s=min(mean_s("read_cpu_ns", "collate_cpu_ns"), mean_s("read_ns", "collate_ns")),
        wait_s=waited_s,
    )
