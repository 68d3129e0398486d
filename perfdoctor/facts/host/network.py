"""Measures what the network carried between the steps, and what is waited for: answers or bytes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum
from typing import Any

from perfdoctor.facts.decode import Json, number, positive
from perfdoctor.facts.host.resources import HostSamples
from perfdoctor.facts.registry import fact
from perfdoctor.model.dataclass import dataclass
from perfdoctor.model.measured import RunFacts
from perfdoctor.model.missing import Missing
from perfdoctor.runs.types import RunRecords

NEAR = 0.7  # of the nominal rate: headers, and what else uses the link, take the rest
FAR = 0.3  # of what the link is known to carry: three times as many requests find room
GIGABIT = 125e6  # bytes per second: hardly a machine that trains has a slower card
LOOPBACK = 1e9  # the same, where one core copies through the kernel
LASTING_S = 3.0  # a shorter burst comes out of buffers

Points = list[tuple[float, float]]  # (seconds, count so far)
Counted = Callable[[Json], Any]  # reads one count out of a sample's "net"


class LinkLimit(str, Enum):
    """What holds up who fetches over a network."""

    LATENCY = "latency"  # answers: the link has room for more requests at a time
    BANDWIDTH = "bandwidth"  # bytes: the link is nearly full
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Link:
    """The interface that is nearest to full or, where all have room, received most."""

    received_bytes_per_s: float  # mean between the first step and the last
    best_bytes_per_s: float  # the most that came in for LASTING_S anywhere in the run
    nominal_bytes_per_s: float | None = None  # what the card can carry in one direction
    loopback: bool = False

    def rate(self, fetching: float) -> float:
        """Bytes per second while batches were fetched, `fetching` of the time."""
        return self.received_bytes_per_s / fetching if fetching > 0 else self.received_bytes_per_s

    def used(self, fetching: float) -> float | None:
        """That rate as a share of the nominal one."""
        if not self.nominal_bytes_per_s:
            return None
        return min(1.0, self.rate(fetching) / self.nominal_bytes_per_s)

    def limit(self, fetching: float) -> LinkLimit:
        """What is waited for. That a rate is the best of the run says nothing: steady waiting is that too."""
        rate, nominal = self.rate(fetching), self.nominal_bytes_per_s
        if nominal and rate >= NEAR * nominal:
            return LinkLimit.BANDWIDTH
        # The way to a fast card may be narrow: beyond the rate of a slow one, only the run itself is proof.
        carries = max(self.best_bytes_per_s, self._least)
        return LinkLimit.LATENCY if rate < FAR * min(nominal or carries, carries) else LinkLimit.UNKNOWN

    def fullness(self) -> float:
        """How full it is, of what it should carry; 0 where there is plenty of room."""
        full = self.received_bytes_per_s / (self.nominal_bytes_per_s or self._least)
        return full if full >= FAR else 0.0

    @property
    def _least(self) -> float:
        return LOOPBACK if self.loopback else GIGABIT


@dataclass(frozen=True)
class NetworkFacts:
    """Traffic of this host's network namespace. Sums leave loopback out; what was not counted is None."""

    received_bytes_per_s: float
    sent_bytes_per_s: float | None
    link: Link
    opened_per_s: float | None = None  # TCP connections, for each rank of this host
    resent: float | None = None  # of the TCP segments that this host sent: a sign of loss


@fact
def network_facts(samples: HostSamples, records: RunRecords, run: RunFacts) -> NetworkFacts | Missing:
    """The network between the steps, as one of the run's ranks has it."""
    ranks = run.ranks
    received = _per_s(_points(samples, _count("received_bytes")))
    if received is None:
        return Missing("network traffic was not sampled while training stepped")
    opened, sent, resent = (
        _per_s(_points(samples, _count(name)))
        for name in ("opened_connections", "sent_segments", "resent_segments")
    )
    return NetworkFacts(
        received_bytes_per_s=received,
        sent_bytes_per_s=_per_s(_points(samples, _count("sent_bytes"))),
        link=_busiest(samples, records.host, ranks)
        or Link(received, _best(received, records.host, _count("received_bytes"))),
        opened_per_s=opened / ranks if opened is not None else None,
        resent=min(1.0, resent / sent) if sent and resent is not None else None,
    )


def _busiest(samples: Sequence[Json], run: Sequence[Json], ranks: int) -> Link | None:
    """The card, or loopback, that comes first; None where they were not told apart."""
    cards = {name: card for entry in samples for name, card in _part(_part(entry, "net"), "cards").items()}
    counts: list[tuple[Counted, object, bool]] = [
        (_count("received_bytes", name), _part(cards, name).get("nominal_bytes_per_s"), False)
        for name in cards
    ]
    if ranks == 1:  # several sync gradients over loopback
        counts.append((_count("loopback_bytes"), None, True))
    links = [
        Link(mean, _best(mean, run, count), positive(nominal), loopback)
        for count, nominal, loopback in counts
        if (mean := _per_s(_points(samples, count))) is not None
    ]
    return max(links, key=lambda link: (link.fullness(), link.received_bytes_per_s), default=None)


def _count(name: str, card: str | None = None) -> Counted:
    """What reads this count, of one card where one is named."""
    if card is None:
        return lambda net: net.get(name)
    return lambda net: _part(_part(net, "cards"), card).get(name)


def _part(entry: Json, name: str) -> Json:
    part = entry.get(name)
    return part if isinstance(part, dict) else {}


def _points(samples: Sequence[Json], count: Counted) -> Points:
    counted = ((number(entry.get("t_ns")) / 1e9, count(_part(entry, "net"))) for entry in samples)
    return [(at_s, number(value)) for at_s, value in counted if value is not None]


def _per_s(points: Points) -> float | None:
    if len(points) < 2 or points[-1][0] <= points[0][0]:
        return None
    return max(0.0, points[-1][1] - points[0][1]) / (points[-1][0] - points[0][0])


def _best(mean: float, run: Sequence[Json], count: Counted) -> float:
    """The highest rate over LASTING_S or little longer, and no less than the mean."""
    best, first, points = mean, 0, _points(run, count)
    for end_s, end in points:
        while first + 1 < len(points) and end_s - points[first + 1][0] >= LASTING_S:
            first += 1
        seconds = end_s - points[first][0]
        if seconds >= LASTING_S:
            best = max(best, (end - points[first][1]) / seconds)
    return best
