"""What phases are called in the HTML report, and which of them wait and which compute."""

from __future__ import annotations

from perfdoctor.model.measured import Phase

WAITS, COMPUTES, ELSE = "waits", "computes", "else"

KIND_NAMES = {WAITS: "waits", COMPUTES: "computes", ELSE: "does neither"}

PHASES = {phase: phase.value.replace("_", " ") for phase in Phase}
KINDS = {
    Phase.DATA_WAIT: WAITS,
    Phase.HOST_TO_DEVICE: WAITS,
    Phase.GRAD_SYNC: WAITS,
    Phase.FORWARD: COMPUTES,
    Phase.BACKWARD: COMPUTES,
    Phase.OPTIMIZER: COMPUTES,
    Phase.VALIDATION: ELSE,
    Phase.CHECKPOINT: ELSE,
    Phase.OTHER: ELSE,
}
# Waiting first, then computing: a bar then shows at once how much of it is which.
ORDER = tuple(sorted(Phase, key=lambda phase: (WAITS, COMPUTES, ELSE).index(KINDS[phase])))
