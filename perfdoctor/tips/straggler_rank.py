"""One rank is the last to start most gradient syncs, and all others wait for it.

## What it sees
How long each rank is blocked in every gradient sync: they leave together, so the rank that was blocked least
arrived last. A comparison with its own phases shows what it does longer than the others. Traces of several
ranks show the same in the lengths of their collectives.

## By hand
Where its model is given more than the others' are, deal the data out anew: sorted by length (or cost), then
in turn, `batches[rank::world]`, so that each step holds batches of about the same cost on all ranks; a
sampler that groups by length does it before the ranks' part is taken.

Else find what takes longer on that rank: its loader, another program on its cores, what only rank 0 does
(checkpoints, logging), a device that is hot and therefore slow.

## When not
Recordings of a single step start at different moments on each rank: the first collectives then show a wait
that is not real.
"""

from __future__ import annotations

from perfdoctor.model.change import Change, Effort, removes
from perfdoctor.model.concluded import Advice, Bottleneck
from perfdoctor.model.measured import RunFacts
from perfdoctor.model.ranks import Straggler, held_against
from perfdoctor.tips.catalogue import Checked, tip

NOTICEABLE = 0.05  # share of the time that the others wait
OFTEN = 0.5  # of all collectives: a rank that is last to fewer takes turns with the others
ENOUGH = 5  # collectives; in fewer, one odd moment decides
IN_TURN = """\
mine = batches[rank::world]  # sorted by length, then dealt in turn: each rank gets short and long ones"""
PART = 0.5  # of the waiting, if the next slowest rank is nearly as late
# Of the step. Cores of one processor differ by that much from run to run (clocks, hyper-threads, neighbours
# on a shared machine), and nobody who trains on them can fix it.
UNEVEN_CORES = 0.20
# The same beside other programs: the neighbour on a hyper-thread takes up to half of the speed of a core.
NEIGHBOURS, BESIDE_NEIGHBOURS = 0.25, 0.30


@tip(
    title="Make the straggler rank as fast as the others",
    bottleneck=Bottleneck.NETWORK,
    effort=Effort.REWRITE,
    applies=("cpu", "gpu", "distributed"),
    checked=Checked.SCRIPTS,
)
def straggler_rank(run: RunFacts, straggler: Straggler) -> Advice | None:
    """Names the rank that the others wait for, where it is always the same one."""
    change = _change(straggler)
    if straggler.matched < ENOUGH or change.step.likely < NOTICEABLE:
        return None
    if run.device == "cpu" and _is_slow_core(straggler, change.step.likely):
        return None
    name = straggler.name + (f" on {straggler.node}" if straggler.nodes > 1 else "")
    syncs = "collectives" if straggler.saved is None else "gradient syncs"
    its_node = f"the node of {name}" if straggler.whole_node else name
    often = f"{straggler.times_last:,} of {straggler.matched:,} {syncs}"
    other = "other" if straggler.ranks == 2 else "median other"
    because = [
        f"{its_node} is the last of {straggler.ranks} to start {often}",
        f"the {other} rank waits {straggler.wait:.1%} of its time",
        f"{straggler.caused:.0%} of all wait time is for {its_node}",
    ]
    if straggler.why:
        because.append(straggler.why)
    elif straggler.excess_s > 0:
        each = " a step" if straggler.per_step else ""
        longer = f"{straggler.excess_s * 1e3:.2f} ms{each} longer than {held_against(straggler.ranks - 1)}"
        because.append(f"it spends {longer} on {straggler.cause.value}")
    return Advice(
        because=tuple(because),
        change=change,
        bottleneck=straggler.charged_to,
        gains_like=straggler.cause,  # what is dealt anew is computing: no exchange gives cores back
        at=straggler.dealt or straggler.lines,
        spares=() if straggler.dealt else straggler.alone,  # what is dealt anew others compute
        code=IN_TURN if straggler.dealt else None,
    )


def _is_slow_core(straggler: Straggler, likely: float) -> bool:
    """Whether it computes longer by no more than cores may differ, with no other program on its own."""
    if straggler.more_data:
        return False
    timed = straggler.saved is not None  # traces of a CPU's ranks are compared by what they show
    uneven = BESIDE_NEIGHBOURS if straggler.strangers >= NEIGHBOURS else UNEVEN_CORES
    return timed and straggler.cause is Bottleneck.COMPUTE and not straggler.crowded and likely < uneven


def _change(straggler: Straggler) -> Change:
    """The time saved if it arrives with the others; where only sums are known, its part of all waiting."""
    if straggler.saved is not None:
        # what is dealt anew others compute: no more than evenly
        most = straggler.saved if straggler.more_data else max(straggler.saved, min(1.0, straggler.wait))
        return removes(PART * straggler.saved, straggler.saved, most)
    often = straggler.last >= OFTEN
    likely = straggler.wait * straggler.caused if often else 0.0
    return removes(PART * likely, likely, straggler.wait)
