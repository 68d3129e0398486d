"""A tweak as the catalogue, help and the documentation show it."""

from __future__ import annotations

from typing import Any

from perfdoctor.model.dataclass import dataclass


@dataclass(frozen=True)
class Tweak:
    """One change that can be applied inside the user's process. `takes` and each of `extras` read a word."""

    id: str
    title: str
    flag: str
    result: str  # bit for bit, within rounding, another path
    takes: Any  # None: the flag alone
    extras: dict[str, Any]  # further flags that go with it
    doc: str
