"""Python's garbage collector holds up the steps.

## What it sees
The collector interrupts the training thread for a visible share of the step. Its full collections look at
every object there is: the more the script has made (datasets held as lists of Python objects, modules,
tokenizers), the longer each pause. A line of the loop that calls `gc.collect()` asks for one each time.

## By hand
    model, dataset = ..., ...
    gc.collect()
    gc.freeze()            # what is there now is not looked at again

and no `gc.collect()` in the loop: memory of tensors is freed when their last name goes, without it.

## When not
Where the loop makes reference cycles that hold tensors, collecting is what frees their memory: mend the
cycles first. Objects frozen are never collected, even if they become garbage.
"""

from __future__ import annotations

from perfdoctor.analysis.pauses import PauseFacts
from perfdoctor.catalogue import Checked, tip
from perfdoctor.change import Effort, removes
from perfdoctor.model import Advice, Bottleneck, StepFacts

NOTICEABLE = 0.03  # share of the step in pauses; a quiet script spends a tenth of that
FROZEN = (0.5, 0.9)  # of a full collection's cost: what the loop itself keeps making is looked at still


@tip(
    title="Stop the garbage collector's pauses",
    bottleneck=Bottleneck.HOST,
    effort=Effort.FLAG,
    checked=Checked.SCRIPTS,
)
def gc_pauses(step: StepFacts, pauses: PauseFacts) -> Advice | None:
    """Freezing what is there, or not asking for collections, where pauses are a visible share."""
    share = min(1.0, pauses.seconds_per_step / step.mean_s) if step.mean_s > 0 else 0.0
    full = min(share, pauses.full_seconds_per_step / step.mean_s) if step.mean_s > 0 else 0.0
    if share < NOTICEABLE:
        return None
    asked = pauses.at is not None
    low, likely = full * FROZEN[0], full if asked else full * FROZEN[1]
    longest_ms = pauses.longest_s * 1e3
    return Advice(
        because=(
            f"garbage collection takes {share:.1%} of the step; the longest pause took {longest_ms:.1f} ms",
            _full(pauses),
            *(() if pauses.at is None else (f"line {pauses.at.line} asks for them",)),
        ),
        change=removes(low, likely, share),
        at=(pauses.at,) if pauses.at is not None else (),
        tweak="--gc-freeze",
        code="# no gc.collect() in the loop" if asked else "gc.collect()\ngc.freeze()  # before the loop",
    )


def _full(pauses: PauseFacts) -> str:
    if not pauses.full_per_step:
        return "all of it in collections of young objects"
    each_ms = pauses.full_seconds_per_step / pauses.full_per_step * 1e3
    return f"collections of everything: one in {1 / pauses.full_per_step:,.1f} steps, {each_ms:.1f} ms each"
