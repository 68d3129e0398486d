"""Training in many processes: each rank's step, what the ranks exchange, and who waits for whom.

A rank's time inside a collective is *waiting* as long as another rank has not come, and *moving* from then
on. Only what no computing hides counts: that is the phase `grad_sync` of the step.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from perfdoctor.model import Bottleneck, Gain, Location, Phase


@dataclass(frozen=True)
class RankFacts:
    """One rank, between its first step and its last. Seconds are means per step."""

    rank: int
    node: str  # the name of its host
    steps: int
    mean_s: float
    seconds: Mapping[Phase, float]  # they add up to `mean_s`
    waiting_s: float = 0.0  # in collectives, for ranks that came later; part of `grad_sync`
    moving_s: float = 0.0  # the rest of `grad_sync`
    matched: int = 0  # exchanges that were found on every rank of a group that it is in
    last: int = 0  # of those, that this rank came to last
    behind_s: float = 0.0  # mean of how much later than the median rank it came to those
    data_cores: float | None = None  # cores its loader workers kept busy
    delay: float | None = None  # seconds its threads were ready but had no core, per second of time
    ended: str | None = None  # how it ended, where it did not end well: "killed by signal 9", "exit code 7"
    inside: str | None = None  # what it was in when the recording stopped, where that tells: "all_reduce ..."


def held_against(others: int) -> str:
    """What a rank is compared with: the median of the others, or the only other one."""
    return "the other rank" if others == 1 else "the median rank"


@dataclass(frozen=True)
class LateRank:
    """The rank that the others wait for most often, and what it does longer than they do."""

    rank: int
    node: str
    last: float  # share of the exchanges that it came to last
    caused: float  # share of all waiting that was for it
    behind_s: float  # per step: how much later than the median rank it comes
    cause: Bottleneck
    phase: Phase  # which of its phases takes longer than the median rank's, most of all
    excess_s: float  # by how much, per step
    why: str  # the same in words, with numbers, and what else is different: cores, clocks, memory, node
    saved_s: float = 0.0  # per step: how much sooner all ranks would go on if it came when the others do
    whole_node: bool = False  # `last` and `caused` are those of all ranks of its node
    crowded: bool = False  # what it takes longer is explained by others who have its cores


@dataclass(frozen=True)
class ExchangeFacts:
    """What the ranks exchange, per step; times are of the median rank, of two ranks of the one that waits."""

    kind: str  # "DistributedDataParallel", "FSDP", or the collective that takes most: "all_reduce"
    ranks: int
    exchanges: float  # per step
    buckets: float  # per step: collectives that an exchange is made of
    bytes: int  # per step and rank, handed to collectives
    busy_s: float  # from the first collective's begin to the last one's end, hidden or not
    moving_s: float  # of that, with every rank there
    exposed_s: float  # not hidden behind computing, waiting for others left out
    waiting_s: float  # not hidden, for others
    hidden: float  # share of busy_s that computing hides
    bus_bytes_per_s: float | None  # bytes * 2 (n - 1) / n / moving_s for an all-reduce (the ring's law)
    by_kind: Mapping[str, tuple[float, int, float]] = field(default_factory=dict)  # calls, bytes, seconds
    at: Location | None = None
    link_bytes_per_s: float | None = None  # what the link between these nodes can do, where it was measured


@dataclass(frozen=True)
class ScalePoint:
    """What to expect of another number of ranks, each with as many samples a step as now."""

    ranks: int
    step_s: float
    speedup: Gain  # of samples per second, against one rank
    bound: Bottleneck  # what most of the step is then
    because: str  # "the exchange takes 41 % of the step"


@dataclass(frozen=True)
class JobFacts:
    """All ranks that trained together. `ranks` are in order; `missing` left no record."""

    world: int
    ranks: tuple[RankFacts, ...]
    nodes: tuple[str, ...]
    missing: tuple[int, ...] = ()
    late: LateRank | None = None
    exchange: ExchangeFacts | None = None
    skew: tuple[float, ...] = ()  # over time: share of each part of the run that the median rank waited
    matched: int = 0  # exchanges that were found on every rank, or on all of the group that tells who is late
    shown: int = 0  # the rank that the rest of the report is about
    waits: Mapping[Bottleneck, float] = field(default_factory=dict)  # its waiting, by what made others late
    crowded_s: float = 0.0  # of its moving, per step: its threads had no core, for other programs had them
    scale: tuple[ScalePoint, ...] = ()  # fewest ranks first
    attempt: int = 0  # restarts by the launcher before this one
    clock_error_s: float | None = None  # of times of different nodes against each other; None on one node
    notes: tuple[str, ...] = ()
