"""One file for each change that can be applied in the user's process, with everything known about it."""

from __future__ import annotations

from ..probe.trial.by_hand import Argument, Around, Autocast, Method, OfArgument, Statement
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
    Count,
    Declared,
    NoChoice,
    OneOf,
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
    "Autocast",
    "Count",
    "Declared",
    "Method",
    "NoChoice",
    "OfArgument",
    "OneOf",
    "Statement",
    "WatchedRun",
    "declaration",
]
