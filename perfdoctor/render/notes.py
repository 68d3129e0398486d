"""How every note is worded: the sentence for its slug, with its values."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from string import Formatter
from typing import Any

from perfdoctor.model.measured import Location
from perfdoctor.model.note import Remark
from perfdoctor.model.ranks import rank_list
from perfdoctor.model.trial import Place
from perfdoctor.render import text
from perfdoctor.render.sentences import link, loader, run, scaling, trace, trial

SENTENCES = {
    **run.SENTENCES,
    **loader.SENTENCES,
    **trial.SENTENCES,
    **scaling.SENTENCES,
    **trace.SENTENCES,
    **link.SENTENCES,
}

PLACES = 3  # of a tweak; more are counted
SHOWN = 6  # names of one kind; more are counted
NUMBER = "n "  # of what follows: `{count:n line}` is "1 line", or "2 lines"


def _nodes(numbers: Sequence[int]) -> str:
    more = " ..." if len(numbers) > SHOWN else ""
    return f"node{'s' if len(numbers) > 1 else ''} {', '.join(map(str, numbers[:SHOWN]))}{more}"


def _versions(ranks: Mapping[str, Sequence[int]]) -> str:
    return ", ".join(f"{version} ({rank_list(own)})" for version, own in sorted(ranks.items())[:SHOWN])


def _attempts(steps: Mapping[int, int]) -> str:
    return ", ".join(f"{count:,} in attempt {number}" for number, count in steps.items())


def _list(things: Sequence[object]) -> str:
    return ", ".join(map(str, things))


def _change(place: Place) -> str:
    where = _places([place.at] if place.at is not None else [])
    if place.because is not None:
        return f"{place.what}{where}, because {place.because}"
    values = (
        "" if place.now is None else f" {place.now}" if place.was is None else f" {place.was} -> {place.now}"
    )
    return f"{place.what}{values}{where}"


def _changes(places: Sequence[Place]) -> str:
    more = [f"{len(places) - PLACES} more"] if len(places) > PLACES else []
    return _list([*map(_change, places[:PLACES]), *more]) or "it found nothing to change"


def _places(places: Sequence[Location]) -> str:
    where = _list([f"{at.file}:{at.line}" for at in places])
    return f" ({where})" if where else ""


def _workers(counts: Sequence[int]) -> str:
    return f"{_list(counts)} worker{'' if list(counts) == [1] else 's'}"


def _names(names: Sequence[str]) -> str:
    more = f" and {len(names) - SHOWN:,} more" if len(names) > SHOWN else ""
    return f"{', '.join(names[:SHOWN])}{more}"


FORMATS: dict[str, Callable[[Any], str]] = {
    "percent": text.percent,
    "seconds": text.seconds,
    "duration": text.duration,
    "clock": lambda epoch_s: time.strftime("%H:%M:%S", time.localtime(epoch_s)),
    "size": text.size,
    "times": text.times,
    "ranks": rank_list,
    "nodes": _nodes,
    "versions": _versions,
    "attempts": _attempts,
    "names": _names,
    "list": _list,
    "places": _places,
    "changes": _changes,
    "workers": _workers,
    "note": lambda note: worded(note),
}


class _Sentence(Formatter):
    """Values in the words of render/text.py where a sentence asks for that: `{share:percent}`."""

    def format_field(self, value: Any, format_spec: str) -> str:
        """A value as its place in the sentence asks for it."""
        if format_spec.startswith(NUMBER):
            return text.count(value, format_spec.removeprefix(NUMBER))
        known = FORMATS.get(format_spec)
        return known(value) if known is not None else str(super().format_field(value, format_spec))


def worded(note: Remark) -> str:
    """A note as a sentence."""
    return note if isinstance(note, str) else _Sentence().vformat(SENTENCES[note.slug], (), note.values)


def all_worded(notes: Iterable[Remark]) -> list[str]:
    """Notes as sentences."""
    return [worded(note) for note in notes]
