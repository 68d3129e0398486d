"""Gradients are exchanged while the device computes nothing.

## What it sees
Communication kernels run in a visible share of the time with no computing beside them.

## By hand
    model = DistributedDataParallel(model, bucket_cap_mb=..., gradient_as_bucket_view=True)
    model.register_comm_hook(None, default_hooks.bf16_compress_hook)    # half the bytes
    with model.no_sync():                                               # accumulate, exchange less often

## When not
Where a rank comes late, the others wait inside their collectives: the cure is that rank, not the network. One
rank's trace cannot tell the two apart; the traces of all ranks can.
"""

from __future__ import annotations

from perfdoctor.analysis.device import DeviceFacts
from perfdoctor.catalogue import Checked, tip
from perfdoctor.change import Effort, removes
from perfdoctor.model import Advice, Bottleneck

NOTICEABLE = 0.05  # share of the time; the last bucket of gradients is never hidden
# Of the exposed time: what regrouped buckets hide, what half the bytes save, and all of it.
GONE = (0.2, 0.5, 0.95)


@tip(
    title="Hide gradient exchange behind computing, or send fewer bytes",
    bottleneck=Bottleneck.NETWORK,
    effort=Effort.FLAG,
    applies=("distributed",),
    checked=Checked.TRACES,
)
def exposed_communication(device: DeviceFacts) -> Advice | None:
    """Hidden or smaller exchange, where it is waited for."""
    if device.exposed_comm < NOTICEABLE:
        return None
    hidden = 1 - device.exposed_comm / device.comm if device.comm else 0.0
    each_s = device.per_step_s(device.exposed_comm)
    a_step = f" ({each_s * 1e3:.2f} ms a step)" if each_s is not None else ""
    low, likely, high = (device.exposed_comm * gone for gone in GONE)
    return Advice(
        because=(
            f"{device.exposed_comm:.1%} of the time is communication that no computing hides{a_step}",
            f"{max(0.0, hidden):.0%} of all communication is hidden",
        ),
        change=removes(low, likely, high),
        tweak="--ddp-compress bf16",
        same_result=False,
        code="model.register_comm_hook(None, default_hooks.bf16_compress_hook)",
    )
