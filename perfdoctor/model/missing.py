"""Absence with a reason: a group of facts that a run could have had, and does not."""

from __future__ import annotations

from perfdoctor.model.dataclass import dataclass


@dataclass(frozen=True)
class Missing:
    """Stands where a group of facts was not measured, and says why.

    A group that does not apply (the loader of a script without one) is None instead: nothing is missing then.
    """

    reason: str
