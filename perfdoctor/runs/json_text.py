"""JSON of files that anybody may have written: what is nested too deeply to be written again is damage."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import orjson

from perfdoctor.runs import regular_file

DEEPEST = 100  # levels; our own files have about ten, and what writes JSON ends at some 250


def loads(text: bytes) -> Any:
    """The value of a JSON text. Raises ValueError where it is none, or nested too deeply."""
    value = orjson.loads(text)
    if text.count(b"[") + text.count(b"{") > DEEPEST and type(value) in (dict, list) and _is_deep(value):
        raise ValueError(f"nested in more than {DEEPEST} levels")
    return value


def objects(path: Path) -> Iterator[dict[str, Any]]:
    """The objects of a file of JSON lines, without broken ones; none where there is no such file."""
    try:
        lines = regular_file.content(path).splitlines()
    except OSError:
        return
    for line in lines:
        try:
            value = loads(line)
        except ValueError:
            continue
        if isinstance(value, dict):
            yield value


def whole(told: object, name: str) -> int | None:
    """A whole number of 0 or more in an object of a record, or None."""
    value = told.get(name) if isinstance(told, dict) else None
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def _is_deep(value: Any) -> bool:
    level = [value]
    for _ in range(DEEPEST + 1):
        # A thousand reports are read to list them, and nearly all that they hold is neither.
        level = [
            item
            for outer in level
            for item in (outer.values() if type(outer) is dict else outer)
            if type(item) in (dict, list)
        ]
        if not level:
            return False
    return True
