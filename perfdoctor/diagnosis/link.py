"""What to make of a measured link."""

from __future__ import annotations

from collections.abc import Iterator

from perfdoctor.model.link import Net
from perfdoctor.model.note import Note

BUCKET_BYTES = 25 * 2**20  # of DistributedDataParallel, by default
MODEL_BYTES = 100e6  # gradients of 25 million parameters in float32: of a ResNet-50
WELL = 0.1  # of an exchange: where latency takes less, larger buckets bring nothing worth a change
# One stream of TCP fills cards of up to 10 Gbit/s to nine tenths, and several or RDMA do so for faster ones:
# what stays below half of the card goes another way, or shares it.
EXPECTED = 0.5
MEGA = 2**20


def advice(net: Net) -> Note:
    """What follows from the measurement."""
    law, rate, card = net.law, net.link_bytes_per_s, net.nic
    if law is None:
        return Note("too-few-sizes")
    if rate is None:
        return Note("only-latency")
    if len(set(net.hosts)) > 1 and card and card.bytes_per_s and rate < EXPECTED * card.bytes_per_s:
        variable = "NCCL_SOCKET_IFNAME" if net.backend == "nccl" else "GLOO_SOCKET_IFNAME"
        adapter, is_infiniband, _ = card.name.partition(":")
        if is_infiniband:
            variable = "NCCL_IB_HCA"
        found = {"share": rate / card.bytes_per_s, "card": card.name, "variable": variable}
        return Note("slow-for-its-card", found | {"interface": adapter})
    least = law.latency_s * (1 - WELL) / WELL / law.seconds_per_byte
    if least > BUCKET_BYTES:
        share = law.latency_s / law.seconds(BUCKET_BYTES)
        return Note("latency-in-buckets", {"share": share, "megabytes": round(least / MEGA)})
    return Note("exchange-takes", {"bytes": MODEL_BYTES, "seconds": law.seconds(MODEL_BYTES)})


def remarks(net: Net) -> list[Note]:
    """What a reader should know of the figures."""
    return list(_remarks(net))


def _remarks(net: Net) -> Iterator[Note]:
    if net.ended is not None:
        yield Note("ended-early", {"why": net.ended})
    if net.cut is not None:
        yield Note("size-cut", {"bytes": net.cut})
    if len(set(net.hosts)) == 1:
        yield Note("one-host-loopback" if net.backend == "gloo" else "one-host-devices")
    if net.law is not None and net.law.error > WELL:
        yield Note("no-line", {"error": net.law.error})
