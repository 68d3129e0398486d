"""How torch's profiler keeps off stderr: by a level that it reads once, at its first start."""

from __future__ import annotations

import os
from typing import Any, Callable, Mapping

KINETO_LOG_LEVEL = "KINETO_LOG_LEVEL"
LEAST_SILENT, SILENT = 5, 99  # torch 2.13 still writes at 4


def is_chosen(environ: Mapping[str, str]) -> bool:
    """Whether the user has chosen a level."""
    return KINETO_LOG_LEVEL in environ


def is_silent(environ: Mapping[str, str]) -> bool:
    """Whether the profiler keeps off stderr, at the level that is chosen or because we may choose it."""
    level = environ.get(KINETO_LOG_LEVEL)
    return level is None or (level.isdigit() and int(level) >= LEAST_SILENT)


def silently(function: Callable[[Any], None], torch: Any) -> None:
    """Start a profiler that does not write to stderr."""
    if is_chosen(os.environ):
        function(torch)
        return
    os.environ[KINETO_LOG_LEVEL] = str(SILENT)
    try:
        function(torch)
    finally:
        del os.environ[KINETO_LOG_LEVEL]
