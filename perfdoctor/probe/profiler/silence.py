"""How torch's profiler keeps off stderr: by a level that it reads once, at its first start, and unwarned.

Torch 2.11 warns at the first start that a later one would forget its events, 2.13 does not. Python's filters
are not touched for it: whoever changes them makes the script's own warnings come again.
"""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from typing import Any, Callable, Iterator, Mapping

KINETO_LOG_LEVEL = "KINETO_LOG_LEVEL"
WARN = "_warn_once"  # torch's own function for warnings of its profiler
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
    with _unwarned():
        if is_chosen(os.environ):
            function(torch)
            return
        os.environ[KINETO_LOG_LEVEL] = str(SILENT)
        try:
            function(torch)
        finally:
            del os.environ[KINETO_LOG_LEVEL]


@contextmanager
def _unwarned() -> Iterator[None]:
    """What torch's profiler warns of in here is not said, nor counted as said to the script's own one."""
    module = sys.modules.get("torch.profiler.profiler")
    warn_once = getattr(module, WARN, None)
    if module is None or warn_once is None:
        yield
        return
    setattr(module, WARN, lambda *args, **kwargs: None)
    try:
        yield
    finally:
        setattr(module, WARN, warn_once)
