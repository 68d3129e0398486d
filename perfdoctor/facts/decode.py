"""Reads values out of JSON records that may be truncated, of another version, or not ours at all.

`sanitized` is passed once over all of them: after it, every value is of the kind its name promises.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from perfdoctor.model.measured import Location
from perfdoctor.runs import events
from perfdoctor.runs.directory import Json
from perfdoctor.runs.types import RunRecords

__all__ = [
    "Json", "as_count", "location", "number", "positive", "process_sum", "processes", "sanitized",
]  # fmt: skip


# What samples hold besides numbers and words; events say it in their declarations.
OBJECTS = {"net", "memory", "shm", "reasons", "threads_env"}
LISTS = {"procs", "storage"}
IDENTITIES = {"id", "loader", "index", "pid", "worker"}


def sanitized(records: RunRecords) -> RunRecords:
    """The same records without values of the wrong kind."""
    return replace(
        records,
        ranks={
            rank: replace(of_rank, events=tuple(events.sanitized(entry) for entry in of_rank.events))
            for rank, of_rank in records.ranks.items()
        },
        boots=_sanitized(records.boots),
        host=_sanitized(records.host),
        gpus={index: _sanitized(rows) for index, rows in records.gpus.items()},
    )


def processes(sample: Json) -> list[Json]:
    """The processes that a sample of the machine saw, whether it was sanitized or not."""
    procs = sample.get("procs")
    return [proc for proc in procs if isinstance(proc, dict)] if isinstance(procs, (list, tuple)) else []


def _sanitized(entries: Iterable[Json]) -> tuple[Json, ...]:
    return tuple(
        {name: _kept(name, value) for name, value in entry.items() if _fits(name, value)} for entry in entries
    )


def _fits(name: str, value: object) -> bool:
    if name in OBJECTS:
        return isinstance(value, dict)
    if name in LISTS:
        return isinstance(value, list)
    if name in IDENTITIES:
        return as_count(value) is not None
    return value is None or isinstance(value, (str, int, float))


def _kept(name: str, value: Any) -> Any:
    if name == "procs":
        return _sanitized(proc for proc in value if isinstance(proc, dict))
    return value


def number(value: object) -> float:
    """A finite number, or 0."""
    if isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value):
        return float(value)
    return 0.0


def positive(value: object) -> float | None:
    """A number above 0, or None."""
    return number(value) if number(value) > 0 else None


def as_count(value: object) -> int | None:
    """A whole number of 0 or more, or None."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def location(value: Any) -> Location | None:
    """A Location from an event's `at`, or None."""
    if (
        not isinstance(value, dict)
        or not isinstance(value.get("file"), str)
        or as_count(value.get("line")) is None
    ):
        return None
    function = value.get("function")
    return Location(value["file"], value["line"], function if isinstance(function, str) else None)


def process_sum(entry: Json, key: str, roles: Sequence[str] | None = None) -> float | None:
    """The sum of a figure of a sample's processes, of some roles or of all; None where it is of none."""
    values = [
        number(proc.get(key))
        for proc in processes(entry)
        if proc.get(key) is not None and (roles is None or proc.get("role") in roles)
    ]
    return sum(values) if values else None
