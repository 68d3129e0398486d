"""The device idles because Python launches its work too slowly.

## What it sees
The device idles until the host launches its next kernel, or until a launch reaches it, and few launches are
ever queued. Compiling the model changes what its forward and backward launch, and nothing beside them.

## By hand
    model = torch.compile(model, mode="reduce-overhead")     # one launch for many kernels
    # or: a larger batch, so that each launch does more work

## When not
A profiler slows the host itself: without it there can be much less idle time. The timers of a watched run
show how much.
"""

from __future__ import annotations

from perfdoctor.facts.device.created_tensors import CreatedTensors
from perfdoctor.facts.device.device import AHEAD, PROFILED, DeviceFacts
from perfdoctor.model.change import Effort, removes
from perfdoctor.model.concluded import Advice, Bottleneck
from perfdoctor.tips.catalogue import Checked, tip
from perfdoctor.trace.results import IdleCause, Launches

NOTICEABLE = 0.10  # share of the time
WORTH_NAMING = 0.02  # share of the time
# Share of exposed launch latency that goes: the profiler's part of it is not known, and a replayed graph has
# almost none left.
LATENCY_S = 10e-6  # of a launch, generously; a longer gap is another stream's, or code being loaded
SHORTER = (0.0, 0.5, 0.9)
UNPROFILED = (1.0, 1.0, 1.0)  # times as long as the timers say: what the profiler adds is left out already
REMOVED = (0.5, 0.7, 0.95)  # of the rest: launches become fewer and cheaper, not free


@tip(
    title="Give the device more work per launch",
    bottleneck=Bottleneck.HOST,
    effort=Effort.FLAG,
    applies=("gpu",),
    checked=Checked.TRACES,
)
def interpreter_bound(device: DeviceFacts, launches: Launches, created: CreatedTensors) -> Advice | None:
    """Advises fewer launches where the device waits for them."""
    late, gaps = device.late, device.idle.get(IdleCause.LAUNCH_GAP, 0.0)
    if device.profiled:  # else the model's part of the host's time leaves it out
        late = max(0.0, late - created.creating)
    gaps = min(gaps, launches.count * LATENCY_S / device.window_s) if device.window_s > 0 else 0.0
    slowed = PROFILED if device.profiled else UNPROFILED
    low, likely, high = (
        device.compilable * (max(0.0, late - (1 - 1 / slower)) * removed + gaps * shorter)
        for slower, removed, shorter in zip(slowed, REMOVED, SHORTER, strict=True)
    )
    if late + gaps < NOTICEABLE or likely <= 0.0 or launches.queue_mean > AHEAD:
        return None
    return Advice(
        because=(
            f"the device idles {late:.1%} of the time because the host has not launched its next work yet",
            f"on average {launches.queue_mean:.1f} launches are queued for the device",
            *(
                [f"it idles another {gaps:.1%} of the time between a launch and its start"]
                if gaps >= WORTH_NAMING
                else []
            ),
        ),
        change=removes(low, likely, high),
        tweak="--compile --compile-mode reduce-overhead",
        same_result=False,
        code='model = torch.compile(model, mode="reduce-overhead")',
    )
