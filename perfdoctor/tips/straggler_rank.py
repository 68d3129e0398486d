"""One rank enters the collectives last on most of them, and all others wait for it.

## What it sees
Traces of several ranks: one rank's collectives are the shortest of all time and again, because the others
have been waiting inside theirs.

## By hand
Look at what that rank does longer than the others: its loader, its share of the work (uneven batches, uneven
shards), a process of somebody else on its cores, a device that is hot and slow.

## When not
Recordings of a single step begin at different moments on each rank: the first collectives then show waiting
that is none.
"""

from __future__ import annotations

from perfdoctor.analysis.ranks import RanksFacts
from perfdoctor.catalogue import Checked, tip
from perfdoctor.change import Effort, removes
from perfdoctor.model import Advice, Bottleneck

NOTICEABLE = 0.05  # share of the time that the others wait
MOST = 0.5  # of all waiting, and of all collectives: below it ranks take turns at being late
ENOUGH = 5  # collectives; in fewer, one odd moment decides
PART = 0.5  # of the waiting, if the next slowest rank is nearly as late


@tip(
    title="Make the late rank as fast as the others",
    bottleneck=Bottleneck.NETWORK,
    effort=Effort.REWRITE,
    applies=("distributed",),
    checked=Checked.TRACES,
)
def straggler_rank(ranks: RanksFacts) -> Advice | None:
    """The rank that the others wait for, where it is always the same one."""
    if ranks.matched < ENOUGH or ranks.last < MOST * ranks.matched or ranks.caused < MOST:
        return None
    likely = ranks.waiting * ranks.caused
    if likely < NOTICEABLE:
        return None
    because = [
        f"rank {ranks.late} is the last of {ranks.ranks} in {ranks.last:,} of {ranks.matched:,} collectives",
        f"the median other rank waits {ranks.waiting:.1%} of its time",
        f"{ranks.caused:.0%} of all waiting is for rank {ranks.late}",
    ]
    if ranks.excess_s > 0:
        longer = f"{ranks.excess_s * 1e3:.2f} ms a step longer than the median rank"
        because.append(f"it spends {longer} on {ranks.cause.value}")
    return Advice(
        because=tuple(because),
        change=removes(PART * likely, likely, ranks.waiting),
        bottleneck=ranks.cause,
    )
