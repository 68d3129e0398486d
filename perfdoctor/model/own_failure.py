"""What failed in perfdoctor itself."""

from __future__ import annotations

from perfdoctor.model.dataclass import dataclass


@dataclass(frozen=True)
class OwnFailure:
    """An error that no user can mend."""

    feature: str  # that it cost: "the tip slow-collate"
    error: str  # in one line, with the line of ours that raised it
    trace: str  # how it came about, as Python prints it
