"""Events of functions that keep their results."""

from __future__ import annotations

from . import Event, Line


class FunctionCacheEvent(Event, name="function_cache"):
    """A full `functools.lru_cache` of the user's, as it stands in one process."""

    at: Line | None  # of the function, with its decorators
    maxsize: int  # results
    hits: int
    misses: int
