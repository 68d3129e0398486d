"""JSON of what comes from the user's machine, whose names need not be text."""

from __future__ import annotations

from typing import Any

import orjson


def dumps(value: Any, option: int = 0) -> bytes:
    """The JSON text of a value, as orjson writes it.

    Bytes of a name that are no UTF-8, which Python holds as lone surrogates, become escapes: `\\udce9`.
    """
    try:
        return orjson.dumps(value, option=option)
    except TypeError:  # also where a value is of a type without JSON: then the second try raises it again
        return orjson.dumps(_escaped(value), option=option)


def _escaped(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode()
    if isinstance(value, dict):
        return {_escaped(name): _escaped(inner) for name, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [_escaped(inner) for inner in value]
    return value
