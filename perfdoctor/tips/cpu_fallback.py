"""An operator runs on the host in the middle of a step, with copies around it, and the device waits.

## What it sees
A tensor is copied to the host, operators work on it there, and a result is copied back, with nothing else
launched in between; the trace shows how long they take while the device idles.

## By hand
    values, order = torch.sort(scores)          # on the device, not torch.sort(scores.cpu()) and back

## When not
Where an operator has no implementation for the device, another formula may work; small tensors can be as fast
on the host.
"""

from __future__ import annotations

from perfdoctor.facts.device.device import CopyFacts, at_line
from perfdoctor.model.change import Effort, removes
from perfdoctor.model.concluded import Advice, Bottleneck
from perfdoctor.tips.catalogue import tip
from perfdoctor.tips.round_trips import ON_HOST, REPEATED

NOTICEABLE = 0.03  # share of the time; less drowns in step-to-step noise
SURE = 0.5  # of what goes, if the operator takes half as long on the device
SHOWN = 3  # round trips named


@tip(
    title="Run the operator on the device",
    bottleneck=Bottleneck.TRANSFER,
    effort=Effort.LINES,
    applies=("gpu",),
)
def cpu_fallback(copies: CopyFacts) -> Advice | None:
    """Advises running operators on the device where it waits for them to run on the host."""
    trips = [
        trip
        for trip in copies.round_trips
        if trip.computing_us >= ON_HOST * trip.idle_us and trip.count >= (copies.judged_steps or REPEATED)
    ]
    share = min(1.0, copies.per_us * sum(trip.exposed_us + trip.idle_us for trip in trips))
    computing = copies.per_us * sum(min(trip.computing_us, trip.idle_us) for trip in trips)
    if share < NOTICEABLE or computing < SURE * NOTICEABLE:
        return None
    return Advice(
        because=(
            f"{share:.1%} of the time the device waits for operators that run on the host",
            *(
                f"{', '.join(trip.computing)} between a copy to the host{at_line(trip.out_at)} "
                f"and one back{at_line(trip.back_at)}, {trip.count:,} times"
                for trip in trips[:SHOWN]
            ),
        ),
        change=removes(SURE * share, share, share),
        at=tuple(dict.fromkeys(at for trip in trips for at in (trip.out_at, trip.back_at) if at is not None)),
        same_result=False,
    )
