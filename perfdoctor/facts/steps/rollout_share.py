"""Counts passes in eval mode as forward by the share that `rollouts` has found, where nothing else tells."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from perfdoctor.model.measured import Phase
from perfdoctor.model.note import Note, Remark

SLUG = "rollouts"


def told(share: float) -> Note:
    """The remark on it; `share` is of the time of all passes in eval mode."""
    return Note(SLUG, {"share": share})


def share_of(remarks: Iterable[Remark]) -> float:
    """The share that is told among these; 0 where none is."""
    notes = (one for one in remarks if isinstance(one, Note) and one.slug == SLUG)
    return next((float(one.values["share"]) for one in notes), 0.0)


def as_forward(phases: Mapping[Phase, Any], share: float) -> dict[Phase, Any]:
    """Seconds of phases, of one step or arrays of many, with such passes in `forward`."""
    if not share or Phase.VALIDATION not in phases:
        return dict(phases)
    validation = phases[Phase.VALIDATION]
    return {
        **phases,
        Phase.VALIDATION: validation * (1.0 - share),
        Phase.FORWARD: phases.get(Phase.FORWARD, 0.0) + validation * share,
    }
