"""Python's garbage collector interrupts the steps.

## What it sees
The collector interrupts the training thread for a noticeable share of the step. A full collection visits
every object that exists: the more objects the script holds (datasets as lists of Python objects, modules,
tokenizers), the longer each pause. A `gc.collect()` in the loop triggers one each time.

## By hand
    model, dataset = ..., ...
    gc.collect()
    gc.freeze()            # later collections skip everything that exists now

and no `gc.collect()` in the loop: a tensor's memory is freed when its last reference goes, without a
collection.

## When not
Where the loop creates reference cycles that hold tensors, collections free their memory: fix the cycles
first. Frozen objects are never collected, even if they become garbage.
"""

from __future__ import annotations

from perfdoctor.facts.host.gc_pauses import GcPauseFacts
from perfdoctor.model.change import Effort, removes
from perfdoctor.model.concluded import Advice, Bottleneck
from perfdoctor.model.measured import StepFacts
from perfdoctor.model.units import every
from perfdoctor.tips.catalogue import Checked, tip

NOTICEABLE = 0.03  # share of the step in pauses; an ordinary script spends a tenth of that
FROZEN = (0.5, 0.9)  # of a full collection's cost: objects that the loop creates are still visited


@tip(
    title="Avoid garbage collection pauses",
    bottleneck=Bottleneck.HOST,
    effort=Effort.FLAG,
    checked=Checked.SCRIPTS,
)
def gc_pauses(step: StepFacts, pauses: GcPauseFacts) -> Advice | None:
    """Advises freezing, or removing explicit collections, where pauses take a noticeable share."""
    share = min(1.0, pauses.seconds_per_step / step.mean_s) if step.mean_s > 0 else 0.0
    full = min(share, pauses.full_seconds_per_step / step.mean_s) if step.mean_s > 0 else 0.0
    if share < NOTICEABLE:
        return None
    explicit = pauses.at is not None
    low, likely = full * FROZEN[0], full if explicit else full * FROZEN[1]
    longest_ms = pauses.longest_s * 1e3
    return Advice(
        because=(
            f"garbage collection takes {share:.1%} of the step; the longest pause was {longest_ms:.1f} ms",
            _full(pauses),
            *(() if pauses.at is None else (f"line {pauses.at.line} calls gc.collect()",)),
        ),
        change=removes(low, likely, share),
        at=(pauses.at,) if pauses.at is not None else (),
        tweak="--gc-freeze",
        code="# no gc.collect() in the loop" if explicit else "gc.collect()\ngc.freeze()  # before the loop",
        takes=share,
    )


def _full(pauses: GcPauseFacts) -> str:
    if not pauses.full_per_step:
        return "all of it in collections of young generations"
    each_ms = pauses.full_seconds_per_step / pauses.full_per_step * 1e3
    if pauses.full == 1:
        return f"one full collection in all of the steps, {each_ms:.1f} ms"
    return f"one full collection {every(1 / pauses.full_per_step, 'step', 1)}, {each_ms:.1f} ms each"
