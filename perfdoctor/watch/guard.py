"""Keeps what fails on our side from the command that is watched: all that is raised is caught here."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def guarded(tell: Callable[[str], object]) -> Iterator[None]:
    """Go on after what fails inside; `tell` gets the error in one line."""
    try:
        yield
    except Exception as error:
        tell(f"{type(error).__name__}: {error}")
