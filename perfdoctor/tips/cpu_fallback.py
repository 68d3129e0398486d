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
from perfdoctor.facts.device.round_trips import for_operators
from perfdoctor.model.change import Effort, removes
from perfdoctor.model.concluded import Advice, Bottleneck
from perfdoctor.tips.catalogue import tip
from perfdoctor.trace.results import RoundTrip

NOTICEABLE = 0.03  # share of the time; less drowns in step-to-step noise
SURE = 0.5  # of what goes, if the operator takes half as long on the device
FASTER = 20.0  # times on a device: it reads 1 TB/s and more, a few cores of a host some 50 GB/s
LAUNCH_US = 10.0  # of an operator on the device, however little it computes
SHOWN = 3  # round trips named


@tip(
    title="Run the operator on the device",
    bottleneck=Bottleneck.HOST,
    effort=Effort.LINES,
    applies=("gpu",),
)
def cpu_fallback(copies: CopyFacts) -> Advice | None:
    """Advises running operators on the device where it waits for them to run on the host."""
    seen = copies.round_trips
    trips = for_operators(seen.trips, seen.judged_steps)
    copying = seen.per_us * sum(trip.exposed_us for trip in trips)
    share = min(1.0, copying + seen.per_us * sum(trip.idle_us for trip in trips))
    computing = seen.per_us * sum(min(trip.computing_us, trip.idle_us) for trip in trips)
    if share < NOTICEABLE or computing < SURE * NOTICEABLE:
        return None
    stays = seen.per_us * sum(_on_device_us(trip) for trip in trips)
    return Advice(
        because=(
            f"{share:.1%} of the time the device waits for operators that run on the host",
            *(
                f"{', '.join(trip.computing)} between a copy to the host{at_line(trip.out_at)} "
                f"and one back{at_line(trip.back_at)}, {trip.count:,} times"
                for trip in trips[:SHOWN]
            ),
        ),
        change=removes(SURE * share, max(SURE * share, share - stays), share),
        at=tuple(dict.fromkeys(at for trip in trips for at in (trip.out_at, trip.back_at) if at is not None)),
        same_result=False,
        bottleneck=Bottleneck.TRANSFER if 2 * copying >= share else None,
    )


def _on_device_us(trip: RoundTrip) -> float:
    """What its operators are likely to take there, of which those named are the longest."""
    return max(trip.computing_us / FASTER, LAUNCH_US * trip.count * len(trip.computing))
