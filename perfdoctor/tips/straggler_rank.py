"""One rank comes last to most exchanges, and all others wait for it.

## What it sees
Of every exchange between the ranks, how long each was blocked in it: they leave together, so the one that was
blocked least came last. Held against its own phases, that tells what it does longer than the others. Traces
of several ranks show the same in the lengths of their collectives.

## By hand
Look at what that rank does longer than the others: its loader, its share of the work (uneven batches, uneven
shards), a process of somebody else on its cores, what only rank 0 does (checkpoints, logging), a device that
is hot and slow.

## When not
Recordings of a single step begin at different moments on each rank: the first collectives then show waiting
that is none.
"""

from __future__ import annotations

from perfdoctor.analysis.ranks import RanksFacts
from perfdoctor.catalogue import Checked, tip
from perfdoctor.change import Change, Effort, removes
from perfdoctor.job import held_against
from perfdoctor.model import Advice, Bottleneck, RunFacts

NOTICEABLE = 0.05  # share of the time that the others wait
MOST = 0.5  # of all waiting, and of all collectives: below it ranks take turns at being late
ENOUGH = 5  # collectives; in fewer, one odd moment decides
PART = 0.5  # of the waiting, if the next slowest rank is nearly as late
# Of the step. Cores of one processor differ by that much from run to run (clocks, hyper-threads, neighbours
# on a shared machine), and nobody who trains on them can mend it.
UNEVEN_CORES = 0.20


@tip(
    title="Make the late rank as fast as the others",
    bottleneck=Bottleneck.NETWORK,
    effort=Effort.REWRITE,
    applies=("cpu", "gpu", "distributed"),
    checked=Checked.SCRIPTS,
)
def straggler_rank(run: RunFacts, ranks: RanksFacts) -> Advice | None:
    """The rank that the others wait for, where it is always the same one."""
    change = _change(ranks)
    if ranks.matched < ENOUGH or ranks.caused < MOST or change.step.likely < NOTICEABLE:
        return None
    if run.device == "cpu" and _is_slow_core(ranks, change.step.likely):
        return None
    name = f"rank {ranks.late}" + (f" on {ranks.node}" if ranks.node else "")
    its_node = f"the node of {name}" if ranks.whole_node else name
    because = [
        f"{its_node} is the last of {ranks.ranks} in {ranks.last:,} of {ranks.matched:,} {ranks.what}",
        f"the {'other' if ranks.ranks == 2 else 'median other'} rank waits {ranks.waiting:.1%} of its time",
        f"{ranks.caused:.0%} of all waiting is for {its_node}",
    ]
    if ranks.why is not None:
        because.append(ranks.why)
    elif ranks.excess_s > 0:
        longer = f"{ranks.excess_s * 1e3:.2f} ms a step longer than {held_against(ranks.ranks - 1)}"
        because.append(f"it spends {longer} on {ranks.cause.value}")
    return Advice(because=tuple(because), change=change, bottleneck=ranks.cause)


def _is_slow_core(ranks: RanksFacts, likely: float) -> bool:
    """Whether computing takes it longer by no more than cores may differ, and no other program has them."""
    timed = ranks.saved is not None  # traces of a CPU's ranks are compared by what they show
    return timed and ranks.cause is Bottleneck.COMPUTE and not ranks.crowded and likely < UNEVEN_CORES


def _change(ranks: RanksFacts) -> Change:
    """What goes if it comes when the others do; where only sums are known, its part of all waiting."""
    if ranks.saved is not None:
        most = max(ranks.saved, min(1.0, ranks.waiting))
        return removes(PART * ranks.saved, ranks.saved, most)
    often = ranks.last >= MOST * ranks.matched
    likely = ranks.waiting * ranks.caused if often else 0.0
    return removes(PART * likely, likely, ranks.waiting)
