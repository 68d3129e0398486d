"""How every note is worded: a sentence for each slug, without a full stop."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from string import Formatter
from typing import Any

from perfdoctor.model.note import Remark
from perfdoctor.render import text

SENTENCES = {
    # of a run
    "busy-machine": "other programs kept {busy:.1f} of {cores:g} cores busy: times and gains will differ on"
    " an idle machine",
    "shown-rank": "findings and phases are for rank {rank}",
    "rival": '"{title}" ({gain:.2f}x likely) is an alternative to "{better}": choose one',
    "small-gains": "small gains: {gains}",
    "wide-ranges": "wide ranges (finding {ranks}): hardly any gain of this kind has been measured yet",
    # of traces
    "judged-file": "verdict and findings are for {name}, {why}",
    "warm-up-step": "{step} took much longer than the steps after it and was left out: it warms up",
    "no-steps-marked": "the trace has no step marks (profiler.step()): shares are of the whole trace",
    "no-device-events": "no device event was recorded: this is a trace of the CPU",
    "unknown-device": "the peak rates of this device are not known: no shares of its peak",
    "few-launches": "most launches are not in the trace: causes of idle time are unknown",
    "no-shapes": "no shapes were recorded: no sizes of matrix products and no operations per second",
    # of a link
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

FORMATS: dict[str, Callable[[Any], str]] = {
    "percent": text.percent,
    "seconds": text.seconds,
    "size": text.size,
    "times": text.times,
}


class _Sentence(Formatter):
    """Values in the words of render/text.py where a sentence asks for that: `{share:percent}`."""

    def format_field(self, value: Any, format_spec: str) -> str:
        """A value as its place in the sentence asks for it."""
        known = FORMATS.get(format_spec)
        return known(value) if known is not None else str(super().format_field(value, format_spec))


def worded(note: Remark) -> str:
    """A note as a sentence."""
    return note if isinstance(note, str) else _Sentence().vformat(SENTENCES[note.slug], (), note.values)


def all_worded(notes: Iterable[Remark]) -> list[str]:
    """Notes as sentences."""
    return [worded(note) for note in notes]
