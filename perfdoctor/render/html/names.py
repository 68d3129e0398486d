"""What phases are called in the HTML report, and the order in which they and the classes of time stand."""

from __future__ import annotations

from perfdoctor.model.concluded import Bottleneck
from perfdoctor.model.measured import Phase

PHASES = {phase: phase.value.replace("_", " ") for phase in Phase}
WAITING = (Phase.DATA_WAIT, Phase.HOST_TO_DEVICE, Phase.GRAD_SYNC)
# Waiting first, in both: a bar then shows at once how much of it that is.
ORDER = (*WAITING, *(phase for phase in Phase if phase not in WAITING))
CLASSES = (Bottleneck.DATA, Bottleneck.TRANSFER, Bottleneck.NETWORK, Bottleneck.HOST, Bottleneck.COMPUTE)
