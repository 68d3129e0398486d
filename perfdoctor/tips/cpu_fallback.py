"""An operator runs on the host in the middle of a step, with copies around it, and the device waits.

## What it sees
A tensor is copied to the host, operators work on it there, and a result is copied back, nothing else being
launched in between; the trace shows how long they take while the device idles.

## By hand
    values, order = torch.sort(scores)          # on the device; not: torch.sort(scores.cpu()) and back

## When not
Where an operator has no version for the device, another formula may do; small tensors can be as fast on the
host."""

from __future__ import annotations

from perfdoctor.analysis.device import CopyFacts, at_line
from perfdoctor.catalogue import tip
from perfdoctor.change import Effort, removes
from perfdoctor.model import Advice, Bottleneck
from perfdoctor.tips.round_trips import ON_HOST, REPEATED

NOTICEABLE = 0.03  # share of the time; less drowns in step-to-step noise
SURE = 0.5  # of what goes, if the operator takes half as long on the device
SHOWN = 3  # detours named


@tip(
    title="Run the operator on the device",
    bottleneck=Bottleneck.TRANSFER,
    effort=Effort.LINES,
    applies=("gpu",),
)
def cpu_fallback(copies: CopyFacts) -> Advice | None:
    """Copies and host time gone, where the device waits for operators of the host."""
    found = [
        way
        for way in copies.detours
        if way.computing_us >= ON_HOST * way.idle_us and way.count >= (copies.files_steps or REPEATED)
    ]
    share = min(1.0, copies.per_us * sum(way.exposed_us + way.idle_us for way in found))
    computing = copies.per_us * sum(min(way.computing_us, way.idle_us) for way in found)
    if share < NOTICEABLE or computing < SURE * NOTICEABLE:
        return None
    return Advice(
        because=(
            f"{share:.1%} of the time passes while the device waits for operators that run on the host",
            *(
                f"{', '.join(way.computing)} between a copy to the host{at_line(way.out_at)} "
                f"and one back{at_line(way.back_at)}, {way.count:,} times"
                for way in found[:SHOWN]
            ),
        ),
        change=removes(SURE * share, share, share),
        at=tuple(dict.fromkeys(at for way in found for at in (way.out_at, way.back_at) if at is not None)),
        same_result=False,
    )
