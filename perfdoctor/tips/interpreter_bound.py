"""The device has nothing to do because Python prepares its next work too slowly.

## What it sees
The device idles until the host launches its next kernel, and few launches are ever waiting for it.

## By hand
    model = torch.compile(model, mode="reduce-overhead")     # one launch for many kernels
    # or: a larger batch, which gives the device more to do for each launch

## When not
A profiler slows the host itself: what is left of the idle time without it can be much less. A run's own
timers tell.
"""

from __future__ import annotations

from perfdoctor.analysis.device import PROFILED, DeviceFacts
from perfdoctor.catalogue import tip
from perfdoctor.change import Effort, removes
from perfdoctor.model import Advice, Bottleneck
from perfdoctor.trace.results import IdleCause, Launches

NOTICEABLE = 0.10  # share of the time
AHEAD = 10  # launches that wait: a host so far ahead launches fast enough, and something else holds it up
REMOVED = (0.5, 0.7, 0.95)  # of what is left: launches become fewer and cheaper, not free


@tip(
    title="Give the device more work for each launch",
    bottleneck=Bottleneck.HOST,
    effort=Effort.FLAG,
    applies=("gpu",),
)
def interpreter_bound(device: DeviceFacts, launches: Launches) -> Advice | None:
    """Fewer launches, where the device waits for them."""
    late = device.idle.get(IdleCause.HOST_LATE, 0.0)
    low, likely, high = (
        max(0.0, late - (1 - 1 / slower)) * removed for slower, removed in zip(PROFILED, REMOVED, strict=True)
    )
    if late < NOTICEABLE or likely <= 0.0 or launches.queue_mean > AHEAD:
        return None
    return Advice(
        because=(
            f"the device idles {late:.1%} of the time because its next work was not launched yet",
            f"on average {launches.queue_mean:.1f} launches wait for the device",
        ),
        change=removes(low, likely, high),
        tweak="--compile",
        same_result=False,
        code='model = torch.compile(model, mode="reduce-overhead")',
    )
