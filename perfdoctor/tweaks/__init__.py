"""One file for each change that can be applied in the user's process, with everything known about it."""

from __future__ import annotations

from ..probe.trial.tweak import (
    AT_ONCE,
    AUTO,
    BITWISE,
    COMPILED,
    EPOCH_BORDERS,
    PATH,
    RESULTS,
    ROUNDING,
    SECOND_EPOCH,
    VALIDATION,
    Argument,
    Around,
    Count,
    Declared,
    NoChoice,
    OneOf,
    Statement,
    WatchedRun,
    declaration,
)

__all__ = [
    "AT_ONCE",
    "AUTO",
    "BITWISE",
    "COMPILED",
    "EPOCH_BORDERS",
    "PATH",
    "RESULTS",
    "ROUNDING",
    "SECOND_EPOCH",
    "VALIDATION",
    "Argument",
    "Around",
    "Count",
    "Declared",
    "NoChoice",
    "OneOf",
    "Statement",
    "WatchedRun",
    "declaration",
]
