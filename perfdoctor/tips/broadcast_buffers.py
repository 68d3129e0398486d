"""DistributedDataParallel sends the buffers of the model from the first rank to the others in each step.

## What it sees
Buffers that are sent (running statistics of batch norm, but also whatever else a module registered: a queue
of keys, a table of features, a mask), and the time that these broadcasts take, with every rank there. Nothing
hides it: forward begins when the buffers have come.

## By hand
    DistributedDataParallel(model, broadcast_buffers=False)       # in newer torch: forward_sync_buffers=False
    self.table = table                                            # no buffer: a constant of each rank
    DistributedDataParallel._set_params_and_buffers_to_ignore_for_model(model, ["table"])   # before wrapping

A plain attribute does not move with `model.to(device)`: put it there by hand. `persistent=False` keeps a
buffer out of the `state_dict`, and it is sent all the same.

## When not
Where ranks change a buffer each in their own way and have to agree on it. Running statistics of batch norm
differ a little from rank to rank then; those of the first rank are the ones that are saved.
"""

from __future__ import annotations

from perfdoctor.facts.script.parallel import ParallelFacts
from perfdoctor.model.change import Effort, removes
from perfdoctor.model.concluded import Advice, Bottleneck
from perfdoctor.model.measured import StepFacts
from perfdoctor.model.units import count, size
from perfdoctor.tips.catalogue import Checked, tip

NOTICEABLE = 0.05  # share of the step
# Of what broadcasts take: other ranks may wait for the first one in the next collective instead.
GONE = (0.5, 0.9, 1.0)


@tip(
    title="Do not send the model's buffers in each step",
    bottleneck=Bottleneck.NETWORK,
    effort=Effort.FLAG,
    applies=("cpu", "gpu", "distributed"),
    checked=Checked.SCRIPTS,
)
def broadcast_buffers(step: StepFacts, parallel: ParallelFacts) -> Advice | None:
    """Advises to leave buffers where they are, where sending them takes a noticeable share of the step."""
    sync, own = parallel.gradient_sync, parallel.own
    if sync is None or own is None or not parallel.buffer_bytes or step.mean_s <= 0:
        return None
    calls, sent, seconds = sync.by_kind.get("broadcast", (0.0, 0, 0.0))
    if sent < parallel.buffer_bytes:
        return None  # other broadcasts than these
    each_s = min(seconds, own.moving_s)
    share = min(1.0, each_s / step.mean_s)
    if share < NOTICEABLE:
        return None
    many = count(max(1, round(calls)), "broadcast")
    return Advice(
        because=(
            f"each forward pass waits for {size(parallel.buffer_bytes)} of buffers from the first rank",
            f"{many} a step of {size(sent)}: {each_s * 1e3:.2f} ms, {share:.1%} of the step",
        ),
        change=removes(*(share * gone for gone in GONE)),
        at=(parallel.wrapped_at,) if parallel.wrapped_at else (),
        same_result=False,
        code="DistributedDataParallel(model, broadcast_buffers=False)",
    )
