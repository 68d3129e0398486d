"""Keeps what was read of the whole files of a run while another one is damaged, input after input."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from perfdoctor.facts.predict import batch_queue, step_model
from perfdoctor.runs import events, exits, interruption, records
from perfdoctor.runs import raw as raw_files
from perfdoctor.runs.directory import Json

QUEUES = 100_000  # steps that were played through: those of some hundred reports
MOST_DECLARED = 1000  # files
KINDS = {kind.event: kind for kind in events.declared()}
# Where the readers of single files are looked up.
PLACES: dict[str, tuple[Any, ...]] = {
    "read_lines": (records, exits),
    "read_rows": (records,),
    "read_stacks": (records,),
    "read_header": (records,),
    "read_now": (records, interruption),
    "read_stack_rate": (records,),
}
NOTES = {"read_lines", "read_rows", "read_stacks"}  # they also take a list for notes


def remember_queues() -> None:
    """Play a step through once: most damage leaves the times as they were, and this is half of a report."""
    step_model.queue = lru_cache(QUEUES)(batch_queue.queue)


class Siblings:
    """What was read of whole files. Judging reads them anew: this is for reading alone."""

    def __init__(self) -> None:
        self._whole: dict[tuple[str, Path], tuple[Any, list[Any]]] = {}

    @contextlib.contextmanager
    def kept(self, damaged: Path | None) -> Iterator[None]:
        """Meanwhile, each file is read once; all but the damaged one are known from before."""
        once: dict[tuple[str, Path], tuple[Any, list[Any]]] = {}

        def reader(name: str) -> Callable[..., Any]:
            def read(path: Path, *problems: list[Any]) -> Any:
                known = once if path == damaged else self._whole
                key = (name, path)
                if key not in known:
                    known[key] = _read(name, path)
                value, notes = known[key]
                if problems:
                    problems[0].extend(notes)
                return value

            return read

        for name, modules in PLACES.items():
            for module in modules:
                setattr(module, name, reader(name))
        try:
            yield
        finally:
            for name, modules in PLACES.items():
                for module in modules:
                    setattr(module, name, getattr(raw_files, name))


def _read(name: str, path: Path) -> tuple[Any, list[Any]]:
    """What the reader of that name makes of a file, and its notes; lines are read at once."""
    notes: list[Any] = []
    value = getattr(raw_files, name)(path, *([notes] if name in NOTES else []))
    if name == "read_lines":
        value = tuple(value)
    elif isinstance(value, np.ndarray):
        value.flags.writeable = False  # it is handed out again
    return value, notes


_declared: dict[int, tuple[Sequence[Json], tuple[Json, ...]]] = {}  # of whole files, by the identity of lines


def declared_events(entries: Sequence[Json]) -> tuple[Json, ...]:
    """Events without what is of another type than declared; each is decoded, too."""
    known = _declared.get(id(entries))
    if known is not None and known[0] is entries:
        return known[1]
    for entry in entries:
        kind = KINDS.get(entry.get("event", ""))
        if kind is not None:
            events.decoded(kind, [entry])
    if len(_declared) > MOST_DECLARED:
        _declared.clear()
    _declared[id(entries)] = (entries, tuple(map(events.sanitized, entries)))
    return _declared[id(entries)][1]
