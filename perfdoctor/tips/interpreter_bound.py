"""The device has nothing to do because Python prepares its next work too slowly.

## What it sees
The device idles until the host launches its next kernel, or while a launch is on its way to it, and few
launches are ever waiting.

## By hand
    model = torch.compile(model, mode="reduce-overhead")     # one launch for many kernels
    # or: a larger batch, which gives the device more to do for each launch

## When not
A profiler slows the host itself: what is left of the idle time without it can be much less. A run's own
timers tell.
"""

from __future__ import annotations

from perfdoctor.analysis.device import PROFILED, DeviceFacts
from perfdoctor.catalogue import Checked, tip
from perfdoctor.change import Effort, removes
from perfdoctor.model import Advice, Bottleneck
from perfdoctor.trace.results import IdleCause, Launches

NOTICEABLE = 0.10  # share of the time
AHEAD = 10  # launches that wait: a host so far ahead launches fast enough, and something else holds it up
WORTH_A_WORD = 0.02  # share of the time
# Of the latency of launches that nothing hides: a profiler's own part is not known, and a replayed graph has
# next to none left.
LATENCY_S = 10e-6  # of a launch, generously; a longer gap is another stream's, or code being loaded
SHORTER = (0.0, 0.5, 0.9)
REMOVED = (0.5, 0.7, 0.95)  # of what is left: launches become fewer and cheaper, not free


@tip(
    title="Give the device more work for each launch",
    bottleneck=Bottleneck.HOST,
    effort=Effort.FLAG,
    applies=("gpu",),
    checked=Checked.TRACES,
)
def interpreter_bound(device: DeviceFacts, launches: Launches) -> Advice | None:
    """Fewer launches, where the device waits for them."""
    late, gaps = (device.idle.get(cause, 0.0) for cause in (IdleCause.HOST_LATE, IdleCause.LAUNCH_GAP))
    gaps = min(gaps, launches.count * LATENCY_S / device.window_s) if device.window_s > 0 else 0.0
    low, likely, high = (
        max(0.0, late - (1 - 1 / slower)) * removed + gaps * shorter
        for slower, removed, shorter in zip(PROFILED, REMOVED, SHORTER, strict=True)
    )
    if late + gaps < NOTICEABLE or likely <= 0.0 or launches.queue_mean > AHEAD:
        return None
    return Advice(
        because=(
            f"the device idles {late:.1%} of the time because its next work was not launched yet",
            f"on average {launches.queue_mean:.1f} launches wait for the device",
            *(
                [f"another {gaps:.1%} it idles between a launch and its begin"]
                if gaps >= WORTH_A_WORD
                else []
            ),
        ),
        change=removes(low, likely, high),
        tweak="--compile --compile-mode reduce-overhead",
        same_result=False,
        code='model = torch.compile(model, mode="reduce-overhead")',
    )
