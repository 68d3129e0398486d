"""Notes of the link between hosts."""

from __future__ import annotations

SENTENCES = {
    "too-few-sizes": "too few sizes were measured to tell latency from bandwidth: give it more time"
    " (--seconds 60)",
    "only-latency": "every size took about as long: only latency counts, and only fewer all-reduces help"
    " (no_sync)",
    "slow-for-its-card": "the ranks reach {share:percent} of what {card} can carry: see whether they use it"
    " ({variable}={interface}), and what else does",
    "latency-in-buckets": "latency is {share:percent} of the time that one of DDP's buckets of 25 MB takes:"
    " use larger buckets, --ddp-bucket-mb {megabytes}",
    "exchange-takes": "synchronising {bytes:size} of gradients takes {seconds:seconds}: if a backward pass"
    " takes less, synchronise less often (perfdoctor try --no-sync) or send fewer bytes"
    " (--ddp-compress bf16)",
    "ended-early": "the measurement ended early: {why}",
    "size-cut": "{bytes:size} was left out: it would have taken longer than the time left; raise --seconds",
    "one-host-loopback": "all ranks are on this host: they communicate over its loopback interface, not over"
    " a network",
    "one-host-devices": "all ranks are on this host: they communicate over the links between its devices, not"
    " over a network",
    "no-line": "for half of the sizes, latency plus bytes over bandwidth is off by {error:percent} or more:"
    " the algorithm changes with the size, or the machine was busy",
}
