"""What the tweaks of a run did: a note for each, for the step that was measured is not the script's own."""

from __future__ import annotations

from collections.abc import Iterator

from perfdoctor.analysis.records import location
from perfdoctor.recorded import RunRecords
from perfdoctor.rundir import Json
from perfdoctor.trial import typed

PLACES = 3  # named in one note


def notes(records: RunRecords) -> Iterator[str]:
    """Which tweaks were on, what they changed where, and what they left alone."""
    asked = records.run.get("tweaks")
    events = [event for own in records.ranks.values() for event in own.of("tweak")]
    cwd = str(records.run.get("cwd") or "")
    for module, values in asked.items() if isinstance(asked, dict) else ():
        own = [event for event in events if event.get("tweak") == module]
        applied = _listed([_changed(event, cwd) for event in own if event.get("outcome") == "applied"])
        left = _listed([_left(event, cwd) for event in own if event.get("outcome") == "left_alone"])
        did = applied or "it found nothing to change"
        yield f"{typed(module, values)} was on: {did}" + (f"; left alone: {left}" if left else "")


def _changed(event: Json, cwd: str) -> str:
    was, now = event.get("was"), event.get("now")
    values = "" if now is None else f" {now}" if was is None else f" {was} -> {now}"
    return f"{event.get('what')}{values}{_where(event, cwd)}"


def _left(event: Json, cwd: str) -> str:
    return f"{event.get('what')}{_where(event, cwd)}, because {event.get('because')}"


def _where(event: Json, cwd: str) -> str:
    at = location(event.get("at"))
    return "" if at is None else f" ({at.file.removeprefix(cwd.rstrip('/') + '/')}:{at.line})"


def _listed(entries: list[str]) -> str:
    """The first few of what several ranks may tell alike."""
    distinct = list(dict.fromkeys(entries))
    more = [f"{len(distinct) - PLACES} more"] if len(distinct) > PLACES else []
    return ", ".join([*distinct[:PLACES], *more])
