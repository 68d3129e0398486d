"""JSON of files that anybody may have written: what is nested too deeply to be written again is damage."""

from __future__ import annotations

from typing import Any

import orjson

DEEPEST = 100  # levels; our own files have about ten, and what writes JSON ends at some 250


def loads(text: bytes) -> Any:
    """The value of a JSON text. Raises ValueError where it is none, or nested too deeply."""
    value = orjson.loads(text)
    if text.count(b"[") + text.count(b"{") > DEEPEST and _is_deep(value):
        raise ValueError(f"nested in more than {DEEPEST} levels")
    return value


def _is_deep(value: Any) -> bool:
    level = [value]
    for _ in range(DEEPEST + 1):
        lists = [inner for inner in level if isinstance(inner, list)]
        objects = [inner for inner in level if isinstance(inner, dict)]
        if not lists and not objects:
            return False
        level = [item for inner in lists for item in inner]
        level += [item for inner in objects for item in inner.values()]
    return True
