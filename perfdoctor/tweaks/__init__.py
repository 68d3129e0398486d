"""One file for each change that can be applied in the user's process, with everything known about it."""

from __future__ import annotations

from ..probe.trial.tweak import (
    AUTO,
    BITWISE,
    EPOCH_BORDERS,
    PATH,
    RESULTS,
    ROUNDING,
    SECOND_EPOCH,
    Count,
    Declared,
    NoChoice,
    OneOf,
    WatchedRun,
    declaration,
)

__all__ = [
    "AUTO",
    "BITWISE",
    "EPOCH_BORDERS",
    "PATH",
    "RESULTS",
    "ROUNDING",
    "SECOND_EPOCH",
    "Count",
    "Declared",
    "NoChoice",
    "OneOf",
    "WatchedRun",
    "declaration",
]
