"""A tensor goes from the device to the host and back within a step, and the device waits meanwhile.

## What it sees
A copy to the host is followed by a copy of as many bytes back, with nothing else launched in between; the
trace shows how long the device idles from one to the other.

## By hand
    mask = scores > threshold        # not: torch.from_numpy(scores.cpu().numpy() > threshold).cuda()

## When not
What no library computes on the device has to be computed on the host: then do it less often, or for another
step while the device works on this one.
"""

from __future__ import annotations

from perfdoctor.facts.device.device import CopyFacts, at_line
from perfdoctor.facts.device.round_trips import for_anything_else
from perfdoctor.model.change import Effort, removes
from perfdoctor.model.concluded import Advice, Bottleneck
from perfdoctor.tips.catalogue import tip
from perfdoctor.trace.results import RoundTrip

NOTICEABLE = 0.03  # share of the time; less drowns in step-to-step noise
SURE = 0.5  # of what goes, if the same work then takes as long on the device
SHOWN = 3  # trips named


@tip(
    title="Keep tensors on the device within a step",
    bottleneck=Bottleneck.TRANSFER,
    effort=Effort.LINES,
    applies=("gpu",),
)
def round_trips(copies: CopyFacts) -> Advice | None:
    """Advises staying on the device where it waits for a tensor to come back."""
    seen = copies.round_trips
    trips = for_anything_else(seen.trips, seen.judged_steps)
    share = min(1.0, seen.per_us * sum(trip.exposed_us + trip.idle_us for trip in trips))
    if share < NOTICEABLE:
        return None
    copying = min(share, seen.per_us * sum(trip.exposed_us for trip in trips))
    return Advice(
        because=(
            f"{share:.1%} of the time the device waits for tensors to come back from the host",
            *(_trip(trip) for trip in trips[:SHOWN]),
        ),
        change=removes(max(copying, SURE * share), share, share),
        at=tuple(dict.fromkeys(at for trip in trips for at in (trip.out_at, trip.back_at) if at is not None)),
        code="mask = scores > threshold  # torch's own operators, on the device",
    )


def _trip(trip: RoundTrip) -> str:
    size, out, back = trip.bytes / trip.count / 1e6, at_line(trip.out_at), at_line(trip.back_at)
    return (
        f"{trip.count:,} times, {size:.2f} MB leave through {trip.out or 'a copy'}{out} and come back{back}"
    )
