"""Tells what a run's tweaks did, in a note for each: the measured step is not the script's own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from perfdoctor.facts.decode import location
from perfdoctor.model.measured import Location
from perfdoctor.model.note import Note
from perfdoctor.model.trial import OWN_ERROR, Place, tweak_as_typed
from perfdoctor.runs.types import RunRecords
from perfdoctor.wire.events.process import TweakEvent


def notes(records: RunRecords) -> Iterator[Note]:
    """Which tweaks were on, what they changed where, and what they left alone."""
    asked = records.run.get("tweaks")
    events = [event for of_tweak in records.ranks.values() for event in of_tweak.of(TweakEvent)]
    cwd = str(records.run.get("cwd") or "")
    for module, values in asked.items() if isinstance(asked, dict) else ():
        of_tweak = [event for event in events if event.tweak == module]
        applied, left, withdrawn = (
            _places([event for event in of_tweak if event.outcome == outcome], cwd)
            for outcome in ("applied", "left_alone", "withdrawn")
        )
        changed = {"tweak": tweak_as_typed(module, values), "places": applied}
        yield Note("tweak-left-alone", {**changed, "left": left}) if left else Note("tweak-on", changed)
        if applied and withdrawn:
            yield Note("tweak-withdrawn", {**changed, "places": withdrawn})


def _places(events: Iterable[TweakEvent], cwd: str) -> list[Place]:
    """Each place once, whatever number of ranks tell of it."""
    places: list[Place] = []
    for event in events:
        at = location(event.at)
        where = None if at is None else Location(at.file.removeprefix(cwd.rstrip("/") + "/"), at.line)
        place = Place(event.tweak, event.what or OWN_ERROR, where, event.was, event.now, event.because)
        if place not in places:
            places.append(place)
    return places
