"""Tells what copies of batches take by the timers alone, where no window saw the device: TimedCopyFacts."""

from __future__ import annotations

from perfdoctor.facts.device.device import DeviceFacts
from perfdoctor.facts.host.resources import CUDA
from perfdoctor.facts.registry import fact
from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.measured import LoaderFacts, Location, Phase, RunFacts, StackFacts, StepFacts
from perfdoctor.model.missing import Missing
from perfdoctor.wire.events.script import DeviceEvent

# From pageable memory, in bytes a second: the faster of the two machines of NVIDIA's "How to Optimize Data
# Transfers in CUDA C/C++".
PAGEABLE = 5e9


@dataclass(frozen=True)
class TimedCopyFacts:
    """Copies to the device as the training thread spends its time on them."""

    share: float  # of the step: copying, and waiting in a copy for work that the device was given before
    batch_bytes: float  # that a step takes from the training loader
    at: tuple[Location, ...]  # the lines that copy, costliest first
    pinned_by_hand: bool  # one of these lines pins what it copies


@fact
def timed_copy_facts(
    run: RunFacts,
    step: StepFacts,
    loader: LoaderFacts,
    trained_on: list[DeviceEvent],
    device: DeviceFacts | Missing | None,
    stacks: StackFacts | Missing,
) -> TimedCopyFacts | None:
    """The copies, or None where a window tells more, or none to a device with memory of its own was timed."""
    share = step.share(Phase.HOST_TO_DEVICE)
    own_memory = any(event.backend == CUDA for event in trained_on)
    if not run.on_device or not own_memory or isinstance(device, DeviceFacts):
        return None
    if not share or not loader.batch_bytes:
        return None
    lines = stacks.phases.get(Phase.HOST_TO_DEVICE, ()) if isinstance(stacks, StackFacts) else ()
    return TimedCopyFacts(
        share=share,
        batch_bytes=loader.batch_bytes * loader.batches_per_step,
        at=tuple(line.at for line in lines),
        pinned_by_hand=any("pin_memory(" in (line.at.statement or "") for line in lines),
    )
