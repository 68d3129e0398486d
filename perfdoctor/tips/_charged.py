"""Which class the time of a phase, or of a line between the phases, is charged to: as in the verdict."""

from __future__ import annotations

from perfdoctor.model.concluded import CLASS_OF_KIND, CLASS_OF_PHASE, Bottleneck
from perfdoctor.model.measured import LineCost, Phase


def charged(phase: Phase, line: LineCost | None) -> Bottleneck:
    """The class of a phase; of `other`, that of the line which takes the time."""
    if phase is Phase.OTHER:
        return CLASS_OF_KIND.get((line.kind if line is not None else None) or "", Bottleneck.HOST)
    return CLASS_OF_PHASE[phase]
