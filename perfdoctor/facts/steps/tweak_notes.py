"""Says what a run's tweaks did, in a note for each: the measured step is not the script's own."""

from __future__ import annotations

from collections.abc import Iterator

from perfdoctor.facts.decode import location
from perfdoctor.model.trial import typed
from perfdoctor.runs.types import RunRecords
from perfdoctor.wire.events.process import TweakEvent

PLACES = 3  # named in one note


def notes(records: RunRecords) -> Iterator[str]:
    """Which tweaks were on, what they changed where, and what they left alone."""
    asked = records.run.get("tweaks")
    events = [event for of_tweak in records.ranks.values() for event in of_tweak.of(TweakEvent)]
    cwd = str(records.run.get("cwd") or "")
    for module, values in asked.items() if isinstance(asked, dict) else ():
        of_tweak = [event for event in events if event.tweak == module]
        applied = _listed([_changed(event, cwd) for event in of_tweak if event.outcome == "applied"])
        left = _listed([_left(event, cwd) for event in of_tweak if event.outcome == "left_alone"])
        did = applied or "it found nothing to change"
        yield f"{typed(module, values)} was on: {did}" + (f"; left alone: {left}" if left else "")


def _changed(event: TweakEvent, cwd: str) -> str:
    was, now = event.was, event.now
    values = "" if now is None else f" {now}" if was is None else f" {was} -> {now}"
    return f"{event.what}{values}{_where(event, cwd)}"


def _left(event: TweakEvent, cwd: str) -> str:
    return f"{event.what}{_where(event, cwd)}, because {event.because}"


def _where(event: TweakEvent, cwd: str) -> str:
    at = location(event.at)
    return "" if at is None else f" ({at.file.removeprefix(cwd.rstrip('/') + '/')}:{at.line})"


def _listed(entries: list[str]) -> str:
    """The first few of what several ranks may tell alike."""
    distinct = list(dict.fromkeys(entries))
    more = [f"{len(distinct) - PLACES} more"] if len(distinct) > PLACES else []
    return ", ".join([*distinct[:PLACES], *more])
