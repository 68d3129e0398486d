"""Each step copies tensors to the device anew that never change.

## What it sees
In a few pairs of steps in a row, a line copied the same tensors of the host to the device in both, and nobody
had written to them: an edge list, a table of basis functions, a mask. A window of the profiler tells how long
these copies take; without one, the timers bound it, and the range is wide.

## By hand
    self.register_buffer("basis", basis, persistent=False)   # not: self.basis = basis
    model.to(device)                                         # moves it, once

A module's buffers move with it, and `persistent=False` keeps them out of checkpoints. Outside of a module,
copy once, before the loop.

## When not
Where the device has no memory left for them. A single batch that all steps train on, to measure without a
loader, is copied anew in each step as well: there the copies may be what is measured.
"""

from __future__ import annotations

from perfdoctor.facts.device.constant_copies import ConstantCopyFacts
from perfdoctor.facts.device.device import at_line
from perfdoctor.model.change import Change, Effort
from perfdoctor.model.concluded import Advice, Bottleneck
from perfdoctor.model.measured import ConstantCopyLine, Phase, StepFacts
from perfdoctor.model.units import size
from perfdoctor.tips.catalogue import tip

NOTICEABLE = 0.03  # share of the step that likely goes; less drowns in step-to-step noise
SHOWN = 3  # lines named


@tip(
    title="Keep tensors that never change on the device",
    bottleneck=Bottleneck.TRANSFER,
    effort=Effort.LINES,
    applies=("gpu",),
)
def constants_copied_every_step(step: StepFacts, constants: ConstantCopyFacts) -> Advice | None:
    """Advises buffers where copies of what never changes take a noticeable share of the step."""
    share = constants.share
    if share.likely < NOTICEABLE:
        return None
    copied = sum(line.bytes for line in constants.lines)
    ms = share.likely * step.mean_s * 1e3
    spent = f"{share.likely:.0%} of each step ({ms:.1f} ms) copies {size(copied)} to the device"
    unseen = "no profiler window shows whether the device computes meanwhile: the range is wide"
    return Advice(
        because=(
            f"{spent} that the step before copied too, in {constants.samples} sampled steps",
            *map(_told, constants.lines[:SHOWN]),
            *(() if constants.by_window else (unseen,)),
        ),
        change=Change(step=share),
        at=tuple(line.at for line in constants.lines[:SHOWN]),
        code="basis = basis.to(device)  # once, before the loop; in modules self.register_buffer(...)",
        phase=None if constants.by_window else Phase.HOST_TO_DEVICE,
    )


def _told(line: ConstantCopyLine) -> str:
    often = f"{line.count:.0f} times a step" if line.count > 1 else "once a step"
    return f"{often}{at_line(line.at)}: {size(line.bytes)}, {line.seconds * 1e3:.2f} ms"
