"""Charges a device's time to the classes that caused it."""

from __future__ import annotations

from dataclasses import replace

from perfdoctor.facts.device.device import DeviceFacts
from perfdoctor.model.concluded import Bottleneck
from perfdoctor.trace.results import IdleCause

CAUSES = {
    IdleCause.DATA_WAIT: Bottleneck.DATA,
    IdleCause.COPY: Bottleneck.TRANSFER,
    IdleCause.OTHER_RANK: Bottleneck.NETWORK,
}  # of every other kind of idle time, the host is the cause


def without_waiting(device: DeviceFacts, waiting: float) -> DeviceFacts:
    """The facts with `waiting`, a share spent inside collectives for other ranks, taken off communication."""
    waited = min(waiting, device.exposed_comm)
    idle = {**device.idle, IdleCause.OTHER_RANK: device.idle.get(IdleCause.OTHER_RANK, 0.0) + waited}
    return replace(device, exposed_comm=device.exposed_comm - waited, comm=device.comm - waited, idle=idle)


def attributed_shares(device: DeviceFacts) -> dict[Bottleneck, float]:
    """The judged time by the class that caused it; the shares add up to 1."""
    classes = dict.fromkeys(Bottleneck, 0.0)
    classes[Bottleneck.COMPUTE] = device.compute
    classes[Bottleneck.NETWORK] = device.exposed_comm
    classes[Bottleneck.TRANSFER] = device.exposed_copy
    for cause, share in device.idle.items():
        classes[CAUSES.get(cause, Bottleneck.HOST)] += share
    between = max(0.0, device.away - device.idle.get(IdleCause.COPY, 0.0))  # the copies out and back
    waiting = max(0.0, device.copying - device.idle.get(IdleCause.COPY, 0.0))
    waited = min(waiting, device.idle.get(IdleCause.SYNC, 0.0))
    # a copy back is waited for as well: of both, the larger holds
    move(classes, max(between, waited), Bottleneck.HOST, Bottleneck.TRANSFER)
    return classes


def move(classes: dict[Bottleneck, float], share: float, source: Bottleneck, target: Bottleneck) -> None:
    """Charge a share of the time to another class, as far as the first has it."""
    share = min(share, classes[source])
    classes[source] -= share
    classes[target] += share
