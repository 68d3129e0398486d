"""Copies from pinned memory block the host until they finish, and the device runs out of work.

## What it sees
The host waits for host-to-device copies from pinned memory that could run asynchronously; the trace shows,
for each line, how long the device idles after them.

## By hand
    batch = batch.to(device, non_blocking=True)

## When not
A tensor that the host modifies right after the copy is issued must not be copied this way. Without pinned
memory the option has no effect, and where the device stays busy nothing is gained.
"""

from __future__ import annotations

from perfdoctor.facts.device.device import WaitFacts, at_line, per_step_ms
from perfdoctor.model.change import Effort, removes
from perfdoctor.model.concluded import Advice, Bottleneck
from perfdoctor.tips.catalogue import tip

NOTICEABLE = 0.03  # share of the time; less drowns in step-to-step noise
REPEATED = 5  # calls, where no step is marked: fewer are set-up
SURE = 0.5  # of what goes, if the next wait takes over the other half
SHOWN = 3  # lines named


@tip(
    title="Copy batches to the device without blocking the host",
    bottleneck=Bottleneck.TRANSFER,
    effort=Effort.FLAG,
    applies=("gpu",),
)
def blocking_copies(waits: WaitFacts) -> Advice | None:
    """Advises non_blocking=True where waiting for copies from pinned memory leaves the device idle."""
    calls = sorted(
        (
            call
            for call in waits.calls
            if (call.direction, call.host_memory) == ("HtoD", "pinned")
            and call.count >= (waits.judged_steps or REPEATED)
        ),
        key=lambda call: -call.idle_us,
    )
    waited, idle, gone = waits.behind(calls)
    if gone < NOTICEABLE:
        return None
    return Advice(
        because=(
            f"the host waits {min(waited, 1.0):.1%} of the time for copies from pinned memory",
            f"the device idles {min(idle, 1.0):.1%} of the time because of these waits",
            *(
                f"{call.op or call.call}{at_line(call.at)}: {per_step_ms(call.us, waits.judged_steps)}"
                for call in calls[:SHOWN]
            ),
        ),
        change=removes(SURE * gone, gone, min(idle, 1.0)),
        at=tuple(dict.fromkeys(call.at for call in calls if call.at is not None))[:SHOWN],
        tweak="--non-blocking" if waits.loader_pins else None,  # what a script pins, it may write into
        code="batch = batch.to(device, non_blocking=True)",
    )
