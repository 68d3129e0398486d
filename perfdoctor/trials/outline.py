"""What the records of an execution tell whatever steps are measured: places, losses, memory, its end."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import replace

import numpy as np

from perfdoctor.facts.decode import location, number, positive
from perfdoctor.facts.steps import boundaries as recorded_steps
from perfdoctor.facts.steps.boundaries import Steps
from perfdoctor.model.trial import OWN_ERROR, Execution, ExecutionEnd, Place
from perfdoctor.runs.directory import Json
from perfdoctor.runs.types import RankRecords, RunRecords


def ranks_of(records: RunRecords) -> list[tuple[RankRecords, Steps]]:
    """The ranks that took steps, the first one first."""
    pairs = ((rank, recorded_steps.find(rank.steps)) for _, rank in sorted(records.ranks.items()))
    return [(rank, steps) for rank, steps in pairs if steps is not None]


def outline_of(records: RunRecords, at_round: int) -> Execution:
    """An execution of which no step is measured yet."""
    events = [event for rank in records.ranks.values() for event in rank.events]
    peaks = [_peaks(rank) for rank in records.ranks.values()]
    ranks = ranks_of(records)
    applied, broken = _places(events, "applied"), _broken(events, records.run.get("tweaks"))
    return Execution(
        at_round,
        ExecutionEnd.NO_STEPS,
        losses=_losses(ranks[0][1]) if ranks else (),
        applied=applied,
        left_alone=_places(events, "left_alone"),
        withdrawn=_withdrawn(records, broken, {place.tweak for place in applied}),
        host_bytes=_sum(host for host, _ in peaks),
        device_bytes=_sum(device for _, device in peaks),
        broken=tuple(f"{name}: {why}" for name, why in broken.items()),
        ranks=len(ranks),
        may_differ=_reasons(events),
        ended_early=records.run.get("outcome") == "stopped"
        or any(event.get("ended_early") is True for event in events),
    )


def _losses(steps: Steps) -> tuple[float, ...]:
    """Each step's loss; the mean over its backwards, for a tweak may put several of them into one step."""
    return tuple((steps.loss / np.maximum(1.0, steps.counts["backwards"])).tolist())


def _places(events: Sequence[Json], outcome: str) -> tuple[Place, ...]:
    """Where tweaks did so; every rank tells the same places."""
    found = (
        _place(event) for event in events if event.get("event") == "tweak" and event.get("outcome") == outcome
    )
    places: list[Place] = []
    for place in found:
        if place not in places:
            places.append(place)
    return tuple(places)


def _place(event: Json) -> Place:
    return Place(
        str(event.get("tweak")).replace("_", "-"),
        str(event.get("what") or OWN_ERROR),
        location(event.get("at")),
        event.get("was"),
        event.get("now"),
        event.get("because"),
    )


def _withdrawn(
    records: RunRecords, broken: Mapping[str, str], applied: AbstractSet[str]
) -> tuple[Place, ...]:
    """What tweaks had changed and left to the script again, each with the rank that did so first.

    Who turned a tweak off for an error says so at once, except while torch compiles: then not when.
    """
    first: list[Place] = []
    for place in sorted(_withdrawals(records), key=lambda place: place.step or 0):
        if place.tweak in applied and all(replace(place, step=each.step) != each for each in first):
            first.append(place)
    known = {place.tweak for place in first}
    errors = ((name.replace("_", "-"), why) for name, why in broken.items())
    unseen = [(tweak, why) for tweak, why in errors if tweak in applied and tweak not in known]
    return (*first, *(Place(tweak, OWN_ERROR, because=why) for tweak, why in unseen))


def _withdrawals(records: RunRecords) -> Iterator[Place]:
    for rank, steps in ranks_of(records):
        for event in rank.events:
            if event.get("event") == "tweak" and event.get("outcome") == "withdrawn":
                taken = np.searchsorted(steps.end_ns, number(event.get("t_ns")), side="right")
                yield replace(_place(event), step=int(taken))


def _reasons(events: Sequence[Json]) -> tuple[str, ...]:
    """Why tweaks cannot keep what they promise here."""
    reasons = (
        str(event.get("because"))
        for event in events
        if event.get("event") == "tweak" and event.get("outcome") == "may_differ"
    )
    return tuple(dict.fromkeys(reasons))


def _broken(events: Sequence[Json], tweaks: object) -> dict[str, str]:
    """Tweaks that turned themselves off, and why; other parts of the probe that did are no matter here."""
    requested = tweaks if isinstance(tweaks, dict) else {}
    reports = [event.get("broken") for event in events if event.get("event") == "trial_end"]
    reasons = {name: why for each in reports if isinstance(each, dict) for name, why in each.items()}
    return {name: str(why) for name, why in reasons.items() if name in requested}


def _peaks(rank: RankRecords) -> tuple[float | None, float | None]:
    """The most bytes that a rank's process took, on the host and on its devices."""
    peaks = [peak for event in rank.of("trial_end") if isinstance(peak := event.get("peak"), dict)]
    host, device = (
        max((positive(peak.get(name)) or 0.0 for peak in peaks), default=0.0)
        for name in ("host_bytes", "device_bytes")
    )
    return host or None, device or None


def _sum(values: Iterable[float | None]) -> int | None:
    numbers = [value for value in values if value is not None]
    return round(sum(numbers)) if numbers else None
