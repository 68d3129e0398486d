"""Which class the time of a phase, or of a line between the phases, is charged to: as in the verdict."""

from __future__ import annotations

from perfdoctor.model.concluded import Bottleneck
from perfdoctor.model.measured import LineCost, Phase

PHASES = {
    Phase.DATA_WAIT: Bottleneck.DATA,
    Phase.HOST_TO_DEVICE: Bottleneck.TRANSFER,
    Phase.GRAD_SYNC: Bottleneck.NETWORK,
    Phase.CHECKPOINT: Bottleneck.HOST,
}
KINDS = {"compute": Bottleneck.COMPUTE, "data": Bottleneck.DATA}


def charged(phase: Phase, line: LineCost | None) -> Bottleneck:
    """The class of a phase; of `other`, that of the line which takes the time."""
    if phase is Phase.OTHER:
        return KINDS.get((line.kind if line is not None else None) or "", Bottleneck.HOST)
    return PHASES.get(phase, Bottleneck.COMPUTE)
